// Copies of large buffers.
#ifndef NPU_BRIDGE_CSRC_COMMON_MEMORY_COPY_H_
#define NPU_BRIDGE_CSRC_COMMON_MEMORY_COPY_H_

#include <cstddef>
#include <cstdint>

namespace npu_bridge {

// From this size on a result does not stay in the caches anyway, and stores that go around them
// save reading the lines first (measured: 1.7 times faster at 8 MiB, 2 times slower at 1 MiB).
constexpr std::uint64_t kStreamingBytes = std::uint64_t{8} << 20;

// memcpy whose stores go around the caches where the machine has such stores. The bytes are visible
// to whoever sees a later release store of this thread, as with memcpy.
void StreamingCopy(void* destination, const void* source, std::size_t bytes);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_MEMORY_COPY_H_
