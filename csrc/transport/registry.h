// Transports by name: those built in, and shared libraries named by a path.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_REGISTRY_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_REGISTRY_H_

#include <string>
#include <vector>

#include "csrc/common/status.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {

// Called at the foot of a built-in transport's source, before main. Returns true.
bool RegisterTransport(const char* name, npu_transport_interface_function function);

// `name_or_path`: a registered name, or a path (anything with a '/') of a shared library that
// exports npu_transport_interface. The error names what was tried and what is known.
Status FindTransport(const std::string& name_or_path, const npu_transport_interface_v1** transport);

std::vector<std::string> RegisteredTransports();

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_REGISTRY_H_
