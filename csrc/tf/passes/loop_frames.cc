#include "csrc/tf/passes/loop_frames.h"

namespace npu_bridge {

TfStatus LoopFrames::Of(const tensorflow::Graph& graph, LoopFrames* frames) {
  TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph, &frames->info_));
  for (tensorflow::Node* node : graph.op_nodes()) {
    // An Enter's own entry names the frame that it opens.
    if (node->IsEnter()) frames->enters_[frames->info_[node->id()].frame_name].push_back(node);
  }
  return TfOk();
}

std::vector<std::string> LoopFrames::FramesOf(const tensorflow::Node& node) const {
  std::vector<std::string> names;
  const tensorflow::ControlFlowInfo* info = &info_[node.id()];
  // The frame outside of all loops has no name, and its node is the source.
  while (!info->frame_name.empty()) {
    names.push_back(info->frame_name);
    info = &info_[info->parent_frame->id()];
  }
  return names;
}

const std::vector<tensorflow::Node*>& LoopFrames::EntersOf(const std::string& frame) const {
  static const auto* const none = new std::vector<tensorflow::Node*>;
  const auto found = enters_.find(frame);
  return found == enters_.end() ? *none : found->second;
}

}  // namespace npu_bridge
