// The clock of deadlines and timestamps.
#ifndef NPU_BRIDGE_CSRC_COMM_CLOCK_H_
#define NPU_BRIDGE_CSRC_COMM_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace npu_bridge {
namespace comm {

constexpr std::int64_t kNanosecondsPerSecond = 1000000000;

// The same in all processes of a host; never set back.
inline std::int64_t MonotonicNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * kNanosecondsPerSecond + now.tv_nsec;
}

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CLOCK_H_
