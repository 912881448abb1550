#include "csrc/tf/passes/fusion_pass.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "csrc/common/fusion_hooks.h"
#include "csrc/tf/passes/fused_op.h"
#include "csrc/tf/passes/fusion_nodes.h"
#include "csrc/tf/passes/fusion_plan.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"

namespace npu_bridge {
namespace {

using tensorflow::Graph;
using tensorflow::Node;

bool HasCollectives(const Graph& graph) {
  const auto& nodes = graph.op_nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node* node) { return IsFusionCollective(*node); });
}

FusionReport::Alone Alone(const FusionCollective& one, const std::string& reason) {
  return {one.name, CollectiveName(one.kind), reason};
}

class FusionPass : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr || IsEagerOpGraph(options)) {
      return TfOk();
    }
    return FuseCollectives(FunctionNameOf(options), options.graph->get());
  }
};

}  // namespace

TfStatus FuseCollectives(const std::string& name, Graph* graph) {
  if (!HasCollectives(*graph)) return TfOk();
  FusionSettings settings;
  TF_RETURN_IF_ERROR(ToTfStatus(ReadFusionSettings(&settings)));
  FusionNodes nodes;
  TF_RETURN_IF_ERROR(ReadFusionNodes(*graph, &nodes));
  FusionReport report;
  report.graph = name;
  if (!settings.enabled) {
    for (const FusionCollective& one : nodes.graph.collectives) {
      report.alone.push_back(Alone(one, "NPU_BRIDGE_FUSION is 0"));
    }
    return ToTfStatus(ReportFusion(report));
  }
  FusionPlan plan;
  TF_RETURN_IF_ERROR(ToTfStatus(PlanFusion(nodes.graph, settings, &plan)));
  for (const std::size_t i : plan.dropped_edges) graph->RemoveEdge(nodes.edges[i]);
  for (const FusionSegment& segment : plan.segments) {
    FusionReport::Segment reported;
    reported.key = segment.key;
    reported.bytes = segment.bytes;
    std::vector<Node*> members;
    for (const std::size_t i : segment.members) {
      members.push_back(nodes.collectives[i]);
      reported.members.push_back(nodes.graph.collectives[i].name);
    }
    TF_RETURN_IF_ERROR(ReplaceByFusedOp(members, graph, &reported.op));
    report.segments.push_back(reported);
  }
  for (std::size_t i = 0; i < plan.reasons.size(); ++i) {
    if (plan.reasons[i].empty()) continue;
    report.alone.push_back(Alone(nodes.graph.collectives[i], plan.reasons[i]));
  }
  return ToTfStatus(ReportFusion(report));
}

// After pruning: at an earlier stage ops that nobody fetches would be merged with those that are,
// and run with them. Nodes are placed by then, so that the merged op gets its members' device. The
// step marker pass comes later and counts the merged ops.
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 50, FusionPass);

}  // namespace npu_bridge
