// Memory files that processes share by descriptor: never visible in a file system, gone with the
// last process that has them.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_MEMORY_FILE_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_MEMORY_FILE_H_

#include <cstdint>
#include <string>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

// A sparse file of zeros that can grow but never shrink: a mapping of it cannot be pulled away.
Status MakeMemoryFile(const std::string& name, std::uint64_t bytes, OwnedDescriptor* file);
Status GrowMemoryFile(const std::string& name, std::uint64_t bytes, const OwnedDescriptor& file);

// Whether a descriptor that came from another process is such a file of at least that size.
Status CheckMemoryFile(const std::string& name, std::uint64_t bytes, int descriptor);

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_MEMORY_FILE_H_
