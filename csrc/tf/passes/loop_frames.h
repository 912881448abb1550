// Where in the nesting of a graph's loops a node runs.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_LOOP_FRAMES_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_LOOP_FRAMES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "csrc/tf/compat.h"
#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

class LoopFrames {
 public:
  // An error when the graph's loops are malformed. The graph must outlive this.
  static TfStatus Of(const tensorflow::Graph& graph, LoopFrames* frames);

  // Names of the frames that `node` runs in, innermost first; empty outside of loops.
  std::vector<std::string> FramesOf(const tensorflow::Node& node) const;

  // The nodes by which values enter a frame; they run in the frame around it.
  const std::vector<tensorflow::Node*>& EntersOf(const std::string& frame) const;

  const std::map<std::string, std::vector<tensorflow::Node*>>& all() const { return enters_; }

 private:
  std::vector<tensorflow::ControlFlowInfo> info_;
  std::map<std::string, std::vector<tensorflow::Node*>> enters_;
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_LOOP_FRAMES_H_
