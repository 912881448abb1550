// Which collectives of a graph become one exchange. Knows nothing of TensorFlow's graphs.
//
// The rules are those of the published op pages: `fusion` 2 merges ops with one key, `fusion` 1
// cuts a group's gradients by its split strategy. Ops that depend on each other, that run in
// different loops or branches, or whose sizes are not known are left alone, and so is what would
// make a cycle. Every rank that has the same graph derives the same plan, whatever order its nodes
// were created in.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_FUSION_PLAN_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_FUSION_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "csrc/common/fusion_settings.h"
#include "csrc/common/status.h"
#include "csrc/tf/passes/fusion_graph.h"

namespace npu_bridge {

struct FusionSegment {
  // Places in FusionGraph::collectives, at least two, in graph order.
  std::vector<std::size_t> members;
  std::string key;  // what the members have in common, for people
  std::int64_t bytes = 0;
};

struct FusionPlan {
  // In graph order of their first members.
  std::vector<FusionSegment> segments;
  // One a collective: why it is in no segment; empty for members of one.
  std::vector<std::string> reasons;
  // Places in FusionGraph::edges of control edges straight from one collective to another that
  // would close a cycle now, or lead from a segment to itself.
  std::vector<std::size_t> dropped_edges;
};

// An error when the graph has a cycle, or a split strategy does not fit the graph's gradients.
Status PlanFusion(const FusionGraph& graph, const FusionSettings& settings, FusionPlan* plan);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_FUSION_PLAN_H_
