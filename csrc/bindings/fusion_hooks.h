// The Python functions that steer the merging of collectives and hear of it.
#ifndef NPU_BRIDGE_CSRC_BINDINGS_FUSION_HOOKS_H_
#define NPU_BRIDGE_CSRC_BINDINGS_FUSION_HOOKS_H_

#include <pybind11/pybind11.h>

namespace npu_bridge {

// `settings()` returns a dict: enabled, segment_bytes, split_strategies (by group a dict with
// last_indices or percentages). `report(dict)` gets graph, segments (op, key, bytes, members) and
// alone (name, op_type, reason). Both from any thread, when TensorFlow compiles a graph with
// collectives, until the interpreter ends.
void SetPythonFusionHooks(pybind11::function settings, pybind11::function report);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_BINDINGS_FUSION_HOOKS_H_
