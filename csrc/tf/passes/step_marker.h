// Adds to each graph with collectives the op that counts its steps, and makes what pairs the
// collectives with their peers' independent of how TensorFlow named things on this rank.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_STEP_MARKER_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_STEP_MARKER_H_

#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

// Gives every collective of the graph its tag, stable names to the frames of loops with
// collectives, and adds one `_HcomStepMarker` that runs before any of them, also when a branch
// skips them all. The marker has no inputs: no cycle can arise. Graphs without collectives stay as
// they are.
TfStatus AddStepMarker(const tensorflow::FunctionLibraryDefinition& library,
                       tensorflow::Graph* graph);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_STEP_MARKER_H_
