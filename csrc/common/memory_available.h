// How much memory this process could still get.
#ifndef NPU_BRIDGE_CSRC_COMMON_MEMORY_AVAILABLE_H_
#define NPU_BRIDGE_CSRC_COMMON_MEMORY_AVAILABLE_H_

#include <cstdint>

namespace npu_bridge {

// Bytes that could be touched now without running the machine, or the control group of this
// process, out of memory. Estimated from /proc/meminfo and the cgroup files; UINT64_MAX when
// neither can be read. Reads files: tens of microseconds.
std::uint64_t AvailableMemoryBytes();

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_MEMORY_AVAILABLE_H_
