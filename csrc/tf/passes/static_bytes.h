// How many bytes a collective moves, as far as that is known before it runs.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_STATIC_BYTES_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_STATIC_BYTES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "csrc/common/data_type.h"
#include "csrc/tf/compat.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorflow {
class ShapeRefiner;
}  // namespace tensorflow

namespace npu_bridge {

class StaticBytes {
 public:
  // The graph must outlive this.
  explicit StaticBytes(const tensorflow::Graph& graph);
  ~StaticBytes();
  StaticBytes(const StaticBytes&) = delete;
  StaticBytes& operator=(const StaticBytes&) = delete;

  // Bytes of the first `types.size()` inputs together; -1 when a shape is not fully known, neither
  // to the Python wrapper that made the op nor from the graph, or the sum does not fit.
  std::int64_t Of(const tensorflow::Node& node, const std::vector<DataType>& types);

 private:
  std::int64_t ElementsOfInput(const tensorflow::Node& node, int input);
  void Infer(const tensorflow::Node& node);

  const tensorflow::Graph& graph_;
  // Only made for graphs in which some shape was not recorded: it runs the shape function of every
  // op that leads to the collective.
  std::unique_ptr<tensorflow::ShapeRefiner> refiner_;
  std::vector<bool> inferred_;  // by node id
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_STATIC_BYTES_H_
