// Merges the collectives of a graph, and reports what was merged.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_FUSION_PASS_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_FUSION_PASS_H_

#include <string>

#include "csrc/tf/compat.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

// Plans (fusion_plan.h) and edits. Graphs without collectives stay as they are. `name` is for the
// report.
TfStatus FuseCollectives(const std::string& name, tensorflow::Graph* graph);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_FUSION_PASS_H_
