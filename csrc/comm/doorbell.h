// How the engine of one rank sleeps and how the others wake it, through shared memory.
#ifndef NPU_BRIDGE_CSRC_COMM_DOORBELL_H_
#define NPU_BRIDGE_CSRC_COMM_DOORBELL_H_

#include <cstdint>
#include <functional>

#include "csrc/comm/table_layout.h"

namespace npu_bridge {
namespace comm {

class Doorbell {
 public:
  explicit Doorbell(RankArea* area) : area_(area) {}

  // Wakes the engine, whatever it is to look at.
  void Ring() const;
  // Tells the engine that the state of `cell` has changed.
  void Notify(std::uint32_t cell) const;

  // For the engine itself. What is rung after the value was read ends the wait.
  std::uint32_t Value() const { return area_->doorbell.load(); }
  void Wait(std::uint32_t value, std::int64_t timeout_ms) const;
  // Calls `look` for each cell notified since the last time.
  void Drain(const std::function<void(std::uint32_t)>& look) const;

 private:
  RankArea* area_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_DOORBELL_H_
