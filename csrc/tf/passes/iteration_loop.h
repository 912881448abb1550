// Turns a step that asks for several iterations into a loop over all that it runs.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_ITERATION_LOOP_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_ITERATION_LOOP_H_

#include "csrc/tf/compat.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

// If the graph holds an `_NpuIterations`, puts everything between what is fed and what is fetched
// into a loop that runs it as often as that op's input says. One iteration ends before the next
// begins; what is fetched is of the last one. Other graphs stay as they are.
TfStatus LoopOverIterations(tensorflow::Graph* graph);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_ITERATION_LOOP_H_
