// Sizes that blocks come in: four per doubling, so that at most a fifth of a block is unused.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_SIZE_CLASS_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_SIZE_CLASS_H_

#include <cstdint>

namespace npu_bridge {
namespace shm {

// The smallest class is a multiple of every page size that Linux uses.
constexpr std::uint64_t kSmallestBlock = std::uint64_t{256} << 10;
constexpr std::uint32_t kSizeClassCount = 4 * 24;

constexpr std::uint64_t SizeOfClass(std::uint32_t size_class) {
  return (kSmallestBlock + kSmallestBlock / 4 * (size_class % 4)) << (size_class / 4);
}

// The smallest class that holds `bytes`; kSizeClassCount when none does.
constexpr std::uint32_t SizeClassFor(std::uint64_t bytes) {
  std::uint32_t size_class = 0;
  while (size_class < kSizeClassCount && SizeOfClass(size_class) < bytes) ++size_class;
  return size_class;
}

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_SIZE_CLASS_H_
