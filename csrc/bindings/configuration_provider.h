// The Python function that describes the job to the world.
#ifndef NPU_BRIDGE_CSRC_BINDINGS_CONFIGURATION_PROVIDER_H_
#define NPU_BRIDGE_CSRC_BINDINGS_CONFIGURATION_PROVIDER_H_

#include <pybind11/pybind11.h>

namespace npu_bridge {

// `provider` is called without arguments, from any thread, once each time the world starts, and
// returns a dict (keys: see the definition). Until the interpreter ends: then calls fail instead.
void SetPythonConfigurationProvider(pybind11::function provider);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_BINDINGS_CONFIGURATION_PROVIDER_H_
