// The Python function that hears of the options in a session's configuration.
#ifndef NPU_BRIDGE_CSRC_BINDINGS_SESSION_OPTIONS_HOOK_H_
#define NPU_BRIDGE_CSRC_BINDINGS_SESSION_OPTIONS_HOOK_H_

#include <pybind11/pybind11.h>

namespace npu_bridge {

// `record(list)` gets a tuple for each entry of NpuOptimizer's parameter_map, in any order: name
// (bytes), the field of AttrValue that is set (str, empty where none is), value (bool, int, float,
// bytes, a list of those, or None for a kind that no option has). From any thread, each time a
// graph of such a session is optimized, until the interpreter ends.
void SetPythonSessionOptionsHook(pybind11::function record);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_BINDINGS_SESSION_OPTIONS_HOOK_H_
