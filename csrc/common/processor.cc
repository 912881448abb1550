#include "csrc/common/processor.h"

#include <sched.h>

#include <cstring>

namespace npu_bridge {

void ProcessorMask(std::uint64_t mask[kProcessorMaskWords]) {
  std::memset(mask, 0, kProcessorMaskWords * sizeof(std::uint64_t));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails on machines with more processors than the set holds: then the mask says "unknown".
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int i = 0; i < kProcessorMaskWords * 64; ++i) {
    if (CPU_ISSET(i, &allowed)) mask[i / 64] |= std::uint64_t{1} << (i % 64);
  }
}

}  // namespace npu_bridge
