// A TensorFlow graph as the fusion planner sees it, and the nodes that stand behind it.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_FUSION_NODES_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_FUSION_NODES_H_

#include <vector>

#include "csrc/tf/compat.h"
#include "csrc/tf/passes/fusion_graph.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

struct FusionNodes {
  FusionGraph graph;
  std::vector<tensorflow::Node*> collectives;  // place: in graph.collectives
  std::vector<const tensorflow::Edge*> edges;  // place: in graph.edges
};

// Whether merging could concern an op: one of the published collectives, point to point included.
bool IsFusionCollective(const tensorflow::Node& node);

// An error when the graph's loops are malformed.
TfStatus ReadFusionNodes(const tensorflow::Graph& graph, FusionNodes* nodes);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_FUSION_NODES_H_
