// Replaces the members of a segment by one op that moves all of them.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_FUSED_OP_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_FUSED_OP_H_

#include <string>
#include <vector>

#include "csrc/tf/compat.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

// The members are of one kind and key, in graph order, and none depends on another: edges between
// them go. All other edges, inputs and outputs move to the new node, which runs where the members
// did. `name` gets the new node's name.
TfStatus ReplaceByFusedOp(const std::vector<tensorflow::Node*>& members, tensorflow::Graph* graph,
                          std::string* name);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_FUSED_OP_H_
