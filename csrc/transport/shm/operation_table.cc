#include "csrc/transport/shm/operation_table.h"

#include <algorithm>

namespace npu_bridge {
namespace shm {
namespace {

// Values of OperationHeader::failure.
enum SetUpFailure : std::uint32_t { kNone = 0, kOutOfMemory = 1 };

}  // namespace

JoinOutcome OperationTable::Join(const Joining& joining) {
  OperationHeader& record = Record(joining.slot);
  if (record.ready.load(std::memory_order_acquire) != joining.match_id) {
    std::uint64_t claimed = record.claimed.load(std::memory_order_acquire);
    if (claimed == joining.match_id) {
      return record.closed.load() == joining.match_id ? JoinOutcome::kAbandoned
                                                      : JoinOutcome::kNotReady;
    }
    if (!record.claimed.compare_exchange_strong(claimed, joining.match_id)) {
      return JoinOutcome::kNotReady;
    }
    SetUp(joining);
    return JoinOutcome::kJoined;
  }
  MarkInFlight(pool_.host_rank(), joining.slot);
  const std::uint64_t joined = record.joined.fetch_or(joining.own_bit);
  if ((joined & kAbandonedBit) == 0) return JoinOutcome::kJoined;
  ClearInFlight(joining.slot);
  return JoinOutcome::kAbandoned;
}

void OperationTable::SetUp(const Joining& joining) {
  OperationHeader& record = Record(joining.slot);
  MarkInFlight(pool_.host_rank(), joining.slot);
  // The last operation here was given up by a member that then never came: nobody waits for that
  // one any more, or the slot would not be ours.
  const std::uint64_t earlier = record.ready.load();
  if (earlier != 0) Close(joining.slot, earlier);

  std::uint32_t work = kNoBlock;
  std::uint32_t result = kNoBlock;
  std::uint64_t failed_bytes = 0;
  if (joining.work_bytes > 0 && !pool_.Allocate(joining.work_bytes, &work).ok()) {
    failed_bytes = joining.work_bytes;
  } else if (joining.result_bytes > 0 && !pool_.Allocate(joining.result_bytes, &result).ok()) {
    failed_bytes = joining.result_bytes;
  }
  record.work_block.store(work);
  record.result_block.store(result);
  record.failure.store(failed_bytes > 0 ? kOutOfMemory : kNone);
  record.failed_bytes.store(failed_bytes);
  record.generation.fetch_add(1);
  record.joined.store(joining.own_bit);
  record.present.store(joining.member_bits);
  record.ready.store(joining.match_id, std::memory_order_release);
}

Status OperationTable::SetUpStatus(std::uint32_t slot) {
  OperationHeader& record = Record(slot);
  if (record.failure.load() == kNone) return Status::Ok();
  return pool_.OutOfMemory(record.failed_bytes.load());
}

void OperationTable::MarkInFlight(std::int32_t host_rank, std::uint32_t slot) {
  memory_.in_flight(host_rank)[slot / 64].fetch_or(std::uint64_t{1} << (slot % 64));
}

void OperationTable::Leave(const Joining& joining) {
  NotPresent(joining.slot, joining.match_id, joining.own_bit);
  ClearInFlight(joining.slot);
}

void OperationTable::ClearInFlight(std::uint32_t slot) {
  memory_.in_flight(pool_.host_rank())[slot / 64].fetch_and(~(std::uint64_t{1} << (slot % 64)));
}

void OperationTable::Abandon(const Joining& joining) {
  const std::uint64_t joined = Record(joining.slot).joined.fetch_or(kAbandonedBit);
  // Those who join from now on are told, so nobody else will be present.
  const std::uint64_t absent = joining.member_bits & ~joined & ~joining.own_bit;
  if (absent != 0) NotPresent(joining.slot, joining.match_id, absent);
}

void OperationTable::NotPresent(std::uint32_t slot, std::uint64_t match_id, std::uint64_t bits) {
  const std::uint64_t before = Record(slot).present.fetch_and(~bits);
  if ((before & bits) != 0 && (before & ~bits) == 0) Close(slot, match_id);
}

void OperationTable::Close(std::uint32_t slot, std::uint64_t match_id) {
  OperationHeader& record = Record(slot);
  // Read before the exchange below: as long as `ready` is match_id they are this operation's.
  const std::uint32_t work = record.work_block.load();
  const std::uint32_t result = record.result_block.load();
  const std::uint32_t generation = record.generation.load();
  std::uint32_t of_members[kMaxHostRanks];
  const std::int32_t members = std::max(memory_.layout().host_size, 2);
  for (std::int32_t i = 0; i < members; ++i) {
    const MemberState state(memory_.cell(slot, i).state.load());
    of_members[i] = state.generation == generation ? state.block : kNoBlock;
  }
  record.closed.store(match_id);
  std::uint64_t expected = match_id;
  if (!record.ready.compare_exchange_strong(expected, 0)) return;
  pool_.Drop(work, kOperationBit);
  pool_.Drop(result, kOperationBit);
  for (std::int32_t i = 0; i < members; ++i) pool_.Drop(of_members[i], kOperationBit);
}

void OperationTable::ExpectNoMore(std::int32_t host_rank) {
  std::atomic<std::uint64_t>* bitmap = memory_.in_flight(host_rank);
  for (std::uint32_t slot = 0; slot < memory_.layout().slot_count; ++slot) {
    const std::uint64_t word = bitmap[slot / 64].load();
    if (word == 0) {
      slot |= 63;
      continue;
    }
    if ((word >> (slot % 64) & 1) == 0) continue;
    OperationHeader& record = Record(slot);
    const std::uint64_t match_id = record.ready.load();
    std::uint64_t present = record.present.load();
    // Exchanged for exactly what was seen: the slot may be another operation's by now, and that one
    // is not to lose a member that is alive.
    while (match_id != 0 && (present & RankBit(host_rank)) != 0) {
      // A rank that sends to itself is there twice.
      const std::uint64_t left = present & ~(RankBit(host_rank) | kSelfSendBit);
      if (!record.present.compare_exchange_strong(present, left)) continue;
      if (left == 0) Close(slot, match_id);
      break;
    }
  }
}

void OperationTable::LeaveForOthers(const Joining& joining) {
  const std::uint64_t absent = joining.member_bits & ~Record(joining.slot).joined.load();
  if (absent == 0) return;
  for (std::int32_t rank = 0; rank < memory_.layout().host_size; ++rank) {
    if ((absent & RankBit(rank)) != 0) MarkInFlight(rank, joining.slot);
  }
}

}  // namespace shm
}  // namespace npu_bridge
