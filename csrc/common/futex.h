// Sleeping on a 32-bit word, in memory of one process or shared by several.
#ifndef NPU_BRIDGE_CSRC_COMMON_FUTEX_H_
#define NPU_BRIDGE_CSRC_COMMON_FUTEX_H_

#include <atomic>
#include <cstdint>

namespace npu_bridge {

// Sleeps while *word == expected, at most timeout_ms (negative: no limit). May return early: the
// caller looks at its condition again.
void FutexWait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
               std::int64_t timeout_ms);

// Wakes at most `count` sleepers.
void FutexWake(const std::atomic<std::uint32_t>& word, int count);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_FUTEX_H_
