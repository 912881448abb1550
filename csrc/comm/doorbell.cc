#include "csrc/comm/doorbell.h"

#include "csrc/common/futex.h"

namespace npu_bridge {
namespace comm {

// Doorbell and sleeping flag are a pair of Dekker's kind: each side writes its own word and then
// reads the other's, all sequentially consistent, so that no wake-up is lost.
void Doorbell::Ring() const {
  area_->doorbell.fetch_add(1);
  if (area_->sleeping.load() != 0) FutexWake(area_->doorbell, 1);
}

void Doorbell::Notify(std::uint32_t cell) const {
  area_->cells[cell / 64].fetch_or(std::uint64_t{1} << (cell % 64));
  area_->summary[cell / 4096].fetch_or(std::uint64_t{1} << (cell / 64 % 64));
  Ring();
}

void Doorbell::Wait(std::uint32_t value, std::int64_t timeout_ms) const {
  area_->sleeping.store(1);
  if (area_->doorbell.load() == value) FutexWait(area_->doorbell, value, timeout_ms);
  area_->sleeping.store(0);
}

void Doorbell::Drain(const std::function<void(std::uint32_t)>& look) const {
  for (std::uint32_t i = 0; i < kCellCount / 4096; ++i) {
    // Read before the exchange: an idle line stays shared between the caches.
    if (area_->summary[i].load() == 0) continue;
    for (std::uint64_t words = area_->summary[i].exchange(0); words != 0; words &= words - 1) {
      const auto word = i * 64 + static_cast<std::uint32_t>(__builtin_ctzll(words));
      for (std::uint64_t bits = area_->cells[word].exchange(0); bits != 0; bits &= bits - 1) {
        look(word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits)));
      }
    }
  }
}

}  // namespace comm
}  // namespace npu_bridge
