#include "csrc/tf/kernels/group_epoch.h"

#include <vector>

#include "csrc/comm/world.h"

namespace npu_bridge {

std::uint64_t GroupEpoch(const std::string& group) {
  World& world = ProcessWorld();
  std::uint64_t epoch = world.generation();
  if (group == kWorldGroup) return epoch;
  std::vector<std::int32_t> ranks;
  // An unknown group has no members here, and the world refuses requests for it.
  if (!world.GroupRanks(group, &ranks).ok()) return epoch;
  for (std::int32_t rank : ranks) {
    epoch = (epoch ^ static_cast<std::uint64_t>(rank + 1)) * 0x100000001b3u;  // FNV-1
  }
  return epoch;
}

}  // namespace npu_bridge
