// Which nodes of a graph run together: in the same loops and the same branches.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_RUN_CONTEXTS_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_RUN_CONTEXTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "csrc/tf/compat.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

class RunContexts {
 public:
  // An error when the graph's loops are malformed.
  static TfStatus Of(const tensorflow::Graph& graph, RunContexts* contexts);

  // Equal for nodes of which each runs whenever the other does.
  std::int64_t ContextOf(const tensorflow::Node& node) const {
    return contexts_[static_cast<std::size_t>(node.id())];
  }

 private:
  std::vector<std::int64_t> contexts_;  // by node id
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_RUN_CONTEXTS_H_
