// The records of operations in flight: how ranks meet in one, and when its blocks are free again.
//
// A record belongs to the operation whose match_id is in `claimed`. The first member to come claims
// and sets it up; a member is `present` from then until it has left, whether it has come or not.
// The record is closed, and its blocks let go, when nobody is present any more. A member that fails
// abandons the operation: whoever has not joined by then no longer can, and is not waited for.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_OPERATION_TABLE_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_OPERATION_TABLE_H_

#include <cstdint>

#include "csrc/common/status.h"
#include "csrc/transport/shm/pool.h"
#include "csrc/transport/shm/shared_memory.h"

namespace npu_bridge {
namespace shm {

// What a member needs to know to join. Equal on all members but for `own_bit`.
struct Joining {
  std::uint64_t match_id = 0;
  std::uint32_t slot = 0;
  std::uint64_t own_bit = 0;
  std::uint64_t member_bits = 0;
  std::uint64_t work_bytes = 0;  // 0: no such block
  std::uint64_t result_bytes = 0;
};

enum class JoinOutcome {
  kJoined,
  kNotReady,   // another member is setting the record up
  kAbandoned,  // the others have given up
};

class OperationTable {
 public:
  explicit OperationTable(Pool* pool) : pool_(*pool), memory_(pool->memory()) {}

  JoinOutcome Join(const Joining& joining);

  // For members that have joined and not left.
  std::uint32_t work_block(std::uint32_t slot) { return Record(slot).work_block.load(); }
  std::uint32_t result_block(std::uint32_t slot) { return Record(slot).result_block.load(); }
  Status SetUpStatus(std::uint32_t slot);
  std::uint32_t Generation(std::uint32_t slot) { return Record(slot).generation.load(); }

  // Leaves; the last one closes the record.
  void Leave(const Joining& joining);
  // Before a leave that is a failure: nobody else can join any more.
  void Abandon(const Joining& joining);

  // Before a leave that is a success: others may still come for what this member has given, and
  // ExpectNoMore must find the operation if one of them dies instead.
  void LeaveForOthers(const Joining& joining);

  // The rank is dead: takes it out of every operation.
  void ExpectNoMore(std::int32_t host_rank);

 private:
  void MarkInFlight(std::int32_t host_rank, std::uint32_t slot);
  OperationHeader& Record(std::uint32_t slot) { return memory_.operation(slot); }
  void SetUp(const Joining& joining);
  void ClearInFlight(std::uint32_t slot);
  // Lets go of the blocks, if the record is still that of `match_id`. Whoever asks first does it.
  void Close(std::uint32_t slot, std::uint64_t match_id);
  void NotPresent(std::uint32_t slot, std::uint64_t match_id, std::uint64_t bits);

  Pool& pool_;
  SharedMemory& memory_;
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_OPERATION_TABLE_H_
