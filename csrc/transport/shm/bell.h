// How a rank's worker sleeps and how the others wake it.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_BELL_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_BELL_H_

#include <cstdint>

#include "csrc/common/futex.h"
#include "csrc/transport/shm/layout.h"

namespace npu_bridge {
namespace shm {

// After a change that the rank may wait for, made with a sequentially consistent store. The sleeper
// first says that it sleeps and then looks again, so one of the two sees the other.
inline void Ring(RankRecord& rank) {
  if (rank.sleeping.load() == 0 || rank.sleeping.exchange(0) == 0) return;
  rank.bell.fetch_add(1);
  FutexWake(rank.bell, 1);
}

// Sleeps until rung, at most timeout_ms, unless `look` finds something to do.
template <typename Look>
void SleepUnless(RankRecord& rank, std::int64_t timeout_ms, Look&& look) {
  const std::uint32_t seen = rank.bell.load();
  rank.sleeping.store(1);
  if (!look()) FutexWait(rank.bell, seen, timeout_ms);
  rank.sleeping.store(0);
}

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_BELL_H_
