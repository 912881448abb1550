// The control memory of a world on one host: whether it stands, and how each rank is.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_CONTROL_BLOCK_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_CONTROL_BLOCK_H_

#include <cstdint>
#include <memory>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/comm/control/host_channel.h"

namespace npu_bridge {
namespace control {

// A world is decided once, for all its ranks at the same moment, wherever a message got lost.
enum class WorldPhase : std::uint32_t { kForming = 0, kComplete = 1, kAborted = 2 };

class ControlBlock {
 public:
  // Makes the memory, every rank alive, and attaches to it.
  static Status Create(std::int32_t size, OwnedDescriptor* file,
                       std::unique_ptr<ControlBlock>* block);
  // Attaches to what another process made.
  static Status Attach(const OwnedDescriptor& file, std::int32_t size,
                       std::unique_ptr<ControlBlock>* block);

  WorldPhase phase() const;
  // Sets the phase unless it is decided; returns what it is then.
  WorldPhase Decide(WorldPhase phase);

  RankState state(std::int32_t rank) const;
  // From alive only; returns the state after it.
  RankState Mark(std::int32_t rank, RankState state);

  // A rank holds its liveness lock until its channel ends. The kernel frees it when the holder's
  // process ends or calls exec, without any descriptor, and another rank can try it. Both are to be
  // called by a thread that lives as long as the process: the lock belongs to the thread.
  Status HoldLiveness(std::int32_t rank);
  void DropLiveness(std::int32_t rank);
  // Whether the process that held the rank's lock is gone.
  bool HolderIsGone(std::int32_t rank);

 private:
  struct Layout;
  struct Cell;

  ControlBlock(std::unique_ptr<SharedMapping> mapping, std::int32_t size);
  Layout* layout() const;
  Cell& cell(std::int32_t rank) const;

  const std::unique_ptr<SharedMapping> mapping_;
  const std::int32_t size_;
};

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_CONTROL_BLOCK_H_
