// Names of loop frames that are the same on every rank. Knows nothing of TensorFlow's graphs.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_FRAME_NAMES_PLAN_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_FRAME_NAMES_PLAN_H_

#include <map>
#include <set>
#include <string>

namespace npu_bridge {

// TensorFlow makes a frame's id, by which collectives in loops pair, of frame names; the frame of a
// loop inside a lowered loop is named with counters of this rank's graph ("while/body/_7/while").
// Gives the new name of each frame of `wanted` whose name has counters, unless another frame of
// the graph (`all`) has that name or would get it: frame names must be unique.
std::map<std::string, std::string> PlanFrameNames(const std::set<std::string>& all,
                                                  const std::set<std::string>& wanted);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_FRAME_NAMES_PLAN_H_
