#include "csrc/comm/matching.h"

#include <algorithm>
#include <cstring>

#include "csrc/comm/clock.h"
#include "csrc/comm/hash.h"
#include "csrc/comm/messages.h"

namespace npu_bridge {
namespace comm {
namespace {

CellState StateOf(const Cell* cell) { return static_cast<CellState>(cell->state.load()); }
void SetState(Cell* cell, CellState state) { cell->state.store(static_cast<std::uint32_t>(state)); }

std::uint32_t HostIndex(const control::HostMembership& membership, std::int32_t world_rank) {
  const auto& ranks = membership.host_ranks;
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), world_rank);
  return static_cast<std::uint32_t>(found - ranks.begin());
}

}  // namespace

Arrival::Arrival(const Group& group_of_request, const CollectiveRequest& the_request)
    : group(group_of_request), request(the_request) {
  key.identity = group.identity;
  if (!IsPointToPoint(request.collective)) {
    key.tag_low = Hash(request.tag.data(), request.tag.size(), 1);
    key.tag_high = Hash(request.tag.data(), request.tag.size(), 2);
    key.frame_id = request.frame_id;
    key.iteration = request.iteration;
    step = request.step;
    member = static_cast<std::uint32_t>(group.rank);
    ranks.resize(group.ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<std::int32_t>(i);
    return;
  }
  // Source and destination meet in the order of their calls, whatever steps they are in.
  const bool sends = request.collective == Collective::kSend;
  const std::int32_t source = sends ? group.rank : request.peer_rank;
  const std::int32_t destination = sends ? request.peer_rank : group.rank;
  key.point_to_point = 1;
  key.tag_low = HashCombine(
      static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination),
      static_cast<std::uint64_t>(request.send_receive_tag));
  key.tag_high = static_cast<std::uint64_t>(request.send_receive_tag);
  key.frame_id = static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
  member = sends ? 0 : 1;
  ranks = {source, destination};
}

struct Matching::Found {
  std::uint32_t to_join = kNoCell;         // the oldest that this rank has not arrived in
  std::uint32_t duplicate = kNoCell;       // this rank is in it, also of another step
  std::vector<std::uint32_t> other_steps;  // open, another step, this rank has not arrived
};

Matching::Found Matching::SearchLocked(Bucket* bucket, const Arrival& arrival) {
  Found found;
  std::vector<std::uint32_t> passed;
  for (std::uint32_t i = bucket->head; i != kNoCell; i = table_->cell(i)->next) {
    Cell* cell = table_->cell(i);
    if (!(cell->key == arrival.key) || arrival.member >= cell->member_count) continue;
    const std::uint32_t flags = table_->member(i, arrival.member)->flags;
    const CellState state = StateOf(cell);
    if (cell->step == arrival.step) {
      if ((flags & kArrived) == 0) {
        if (found.to_join == kNoCell ||
            cell->match_id.load() < table_->cell(found.to_join)->match_id.load()) {
          found.to_join = i;
        }
      } else if ((flags & kDeparted) == 0 && !arrival.key.point_to_point) {
        found.duplicate = i;
      }
    } else if ((flags & (kArrived | kDeparted)) == kArrived && !arrival.key.point_to_point) {
      found.duplicate = i;
    } else if ((flags & kArrived) == 0) {
      if (state == CellState::kOpen) {
        found.other_steps.push_back(i);
      } else if (state == CellState::kFailed && cell->step < arrival.step) {
        passed.push_back(i);
      }
    }
  }
  // Steps only grow: this rank never comes to a failed cell of an earlier one.
  for (std::uint32_t i : passed) {
    table_->member(i, arrival.member)->flags |= kArrived;
    ++table_->cell(i)->arrived;
    DepartLocked(bucket, i, arrival.member);
  }
  return found;
}

std::uint32_t Matching::CreateLocked(Bucket* bucket, const Arrival& arrival) {
  const std::uint32_t index = table_->TakeCell();
  if (index == kNoCell) return kNoCell;
  Cell* cell = table_->cell(index);
  cell->match_id.store(table_->header()->next_match_id.fetch_add(1));
  cell->order.store(0);
  cell->warned.store(0);
  cell->member_count = static_cast<std::uint32_t>(arrival.ranks.size());
  cell->arrived = 0;
  cell->departed = 0;
  cell->agreement_differs = 0;
  cell->first_member = kNobody;
  cell->abandoned = 0;
  cell->key = arrival.key;
  cell->step = arrival.step;
  for (std::uint32_t i = 0; i < cell->member_count; ++i) {
    const std::int32_t rank = arrival.ranks[i];
    table_->host_indexes(index)[i] =
        HostIndex(channel_->membership(), arrival.group.ranks[static_cast<std::size_t>(rank)]);
    CellMember* member = table_->member(index, i);
    member->flags = 0;
    member->heap_block = 0;
    member->own_size = 0;
    member->agreement_size = 0;
  }
  SetState(cell, CellState::kOpen);
  // The chain stays whole when this rank dies between any two stores.
  cell->next = bucket->head;
  bucket->head = index;
  return index;
}

Status Matching::Arrive(const Arrival& arrival, CellRef* ref, CellState* state) {
  // Encoded before the lock is taken.
  const std::string agreement = EncodeAgreement(arrival.request);
  const std::string own = EncodeOwn(arrival.request);
  if (table_->header()->abandoned.load(std::memory_order_relaxed) > kMostAbandoned) {
    ReclaimAbandoned();
  }
  const std::int64_t now = MonotonicNanoseconds();
  bool complete = false;
  Bucket* bucket = table_->BucketOf(arrival.key);
  {
    RobustLock lock(&bucket->mutex);
    if (lock.owner_died()) table_->RepairChain(bucket);
    const Found found = SearchLocked(bucket, arrival);
    if (found.duplicate != kNoCell && table_->cell(found.duplicate)->step != arrival.step) {
      return RefuseLocked(
          bucket, found, arrival,
          InvalidArgument(DescribeOp(arrival.request) + ": " +
                          DescribeRank(arrival.group, arrival.group.rank) +
                          " started it again while an earlier call is still in flight, as two "
                          "threads may do. Which of them comes first can differ between ranks, and "
                          "calls are never paired by chance. Run them one after the other, or give "
                          "each thread a group of its own (hccl.manage.api.create_group)."));
    }
    if (found.duplicate != kNoCell) {
      return RefuseLocked(
          bucket, found, arrival,
          InvalidArgument(DescribeOp(arrival.request) + ": " +
                          DescribeRank(arrival.group, arrival.group.rank) +
                          " started a second op under the tag '" + arrival.request.tag +
                          "' while the first is still in flight, and calls are never paired by "
                          "their order. Give each op a name of its own (name=...)."));
    }
    if (found.to_join == kNoCell && !found.other_steps.empty()) {
      const std::uint32_t other = found.other_steps.front();
      return RefuseLocked(
          bucket, found, arrival,
          Internal(DescribeOp(arrival.request) + ": desync: " +
                   DescribeRank(arrival.group, arrival.group.rank) + " came to step " +
                   std::to_string(arrival.step) + ", but " + WhoWaits(other, arrival) +
                   " in step " + std::to_string(table_->cell(other)->step) +
                   ". Some rank ran a step without this op, or a step more than the others. All "
                   "ranks must run the same steps, and take the same branches around "
                   "collectives."));
    }
    std::uint32_t index = found.to_join;
    if (index == kNoCell) index = CreateLocked(bucket, arrival);
    if (index == kNoCell) {
      return ResourceExhausted(DescribeOp(arrival.request) + ": " +
                               DescribeRank(arrival.group, arrival.group.rank) + " finds all " +
                               std::to_string(kCellCount) +
                               " places for ops in flight on this host in use. Are there sends "
                               "that no rank receives?");
    }
    Cell* cell = table_->cell(index);
    CellMember* member = table_->member(index, arrival.member);
    if (StateOf(cell) != CellState::kFailed &&
        !table_->Store(index, arrival.member, agreement, own)) {
      FailLocked(index, ResourceExhausted(DescribeOp(arrival.request) + ": " +
                                          DescribeRank(arrival.group, arrival.group.rank) +
                                          " finds the matching table full: too many ops with "
                                          "thousands of tensors are in flight."));
    }
    member->arrived_ns = now;
    member->waiting.store(static_cast<std::uint32_t>(Waiting::kPolling));
    member->flags |= kArrived;
    ++cell->arrived;
    if (StateOf(cell) == CellState::kFailed) {
      const Status failure = FailureLocked(index);
      DepartLocked(bucket, index, arrival.member);
      return failure;
    }
    ref->cell = index;
    ref->match_id = cell->match_id.load();
    ref->member = arrival.member;
    ref->key = arrival.key;
    complete = cell->arrived == cell->member_count;
    if (complete && cell->agreement_differs == 0 &&
        arrival.request.collective != Collective::kAllToAllV) {
      SetState(cell, CellState::kMatched);
    }
  }
  table_->Moved(arrival.key.identity, now);
  *state = State(*ref);
  if (!complete) return Status::Ok();
  // The cell stays as it is while this rank is in it: no other can arrive, and it cannot be freed.
  if (*state == CellState::kOpen) Compare(arrival, *ref);
  *state = State(*ref);
  if (*state == CellState::kMatched) NotifyParked(*ref);
  return Status::Ok();
}

void Matching::Refuse(const Arrival& arrival, const Status& refusal) {
  Bucket* bucket = table_->BucketOf(arrival.key);
  RobustLock lock(&bucket->mutex);
  if (lock.owner_died()) table_->RepairChain(bucket);
  RefuseLocked(bucket, SearchLocked(bucket, arrival), arrival, refusal);
}

// Fails every cell that this request could have met, and leaves a failed one for the ranks that
// come to it later.
Status Matching::RefuseLocked(Bucket* bucket, const Found& found, const Arrival& arrival,
                              const Status& refusal) {
  if (found.duplicate != kNoCell) FailLocked(found.duplicate, refusal);
  for (std::uint32_t i : found.other_steps) {
    FailLocked(i, refusal);
    if (table_->cell(i)->step > arrival.step) continue;
    table_->member(i, arrival.member)->flags |= kArrived;
    ++table_->cell(i)->arrived;
    DepartLocked(bucket, i, arrival.member);
  }
  std::uint32_t index = found.to_join;
  if (index == kNoCell) index = CreateLocked(bucket, arrival);
  if (index == kNoCell) return refusal;
  FailLocked(index, refusal);
  table_->member(index, arrival.member)->flags |= kArrived;
  ++table_->cell(index)->arrived;
  DepartLocked(bucket, index, arrival.member);
  return refusal;
}

void Matching::Compare(const Arrival& arrival, const CellRef& ref) {
  std::vector<Fingerprint> members(arrival.ranks.size());
  bool readable = true;
  for (std::uint32_t i = 0; i < members.size() && readable; ++i) {
    std::string agreement;
    std::string own;
    readable = table_->Load(ref.cell, i, &agreement, &own) && Decode(agreement, own, &members[i]);
  }
  Status status;
  if (!readable) {
    status = Internal(DescribeOp(arrival.request) +
                      ": what a rank wrote into the matching table cannot be read. Do all ranks "
                      "run the same version of this package?");
  } else if (arrival.key.point_to_point != 0) {
    status = ComparePointToPoint(arrival.group, members[0], members[1]);
  } else {
    status = CompareCollective(arrival.group, members);
  }
  if (!status.ok()) {
    Fail(ref, status);
    return;
  }
  Bucket* bucket = table_->BucketOf(ref.key);
  RobustLock lock(&bucket->mutex);
  if (lock.owner_died()) table_->RepairChain(bucket);
  Cell* cell = table_->cell(ref.cell);
  if (StateOf(cell) == CellState::kOpen) SetState(cell, CellState::kMatched);
}

void Matching::NotifyParked(const CellRef& ref) {
  const std::uint32_t count = table_->cell(ref.cell)->member_count;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i == ref.member) continue;
    if (table_->member(ref.cell, i)->waiting.load() !=
        static_cast<std::uint32_t>(Waiting::kParked)) {
      continue;
    }
    const std::uint32_t host_index = table_->host_indexes(ref.cell)[i];
    if (host_index < table_->host_size()) table_->doorbell(host_index).Notify(ref.cell);
  }
}

CellState Matching::State(const CellRef& ref) const {
  const Cell* cell = table_->cell(ref.cell);
  const CellState state = StateOf(cell);
  return cell->match_id.load() == ref.match_id ? state : CellState::kFree;
}

std::uint64_t Matching::Order(const CellRef& ref) const {
  return table_->cell(ref.cell)->order.load();
}

bool Matching::AnnounceOrder(const CellRef& ref, std::uint64_t order) {
  Bucket* bucket = table_->BucketOf(ref.key);
  {
    RobustLock lock(&bucket->mutex);
    if (lock.owner_died()) table_->RepairChain(bucket);
    if (StateOf(table_->cell(ref.cell)) != CellState::kMatched) return false;
    table_->cell(ref.cell)->order.store(order);
  }
  NotifyParked(ref);
  return true;
}

void Matching::SetWaiting(const CellRef& ref, Waiting waiting) {
  table_->member(ref.cell, ref.member)->waiting.store(static_cast<std::uint32_t>(waiting));
}

bool Matching::ClaimWarning(const CellRef& ref) {
  return table_->cell(ref.cell)->warned.exchange(1) == 0;
}

bool Matching::IsLocked(std::uint32_t index, const CellRef& ref) const {
  const Cell* cell = table_->cell(index);
  return StateOf(cell) != CellState::kFree && cell->match_id.load() == ref.match_id &&
         cell->key == ref.key;
}

Status Matching::Failure(const CellRef& ref) {
  Bucket* bucket = table_->BucketOf(ref.key);
  RobustLock lock(&bucket->mutex);
  if (lock.owner_died()) table_->RepairChain(bucket);
  if (IsLocked(ref.cell, ref) && StateOf(table_->cell(ref.cell)) == CellState::kFailed) {
    return FailureLocked(ref.cell);
  }
  return Internal("Rank " + std::to_string(channel_->membership().rank) +
                  " was taken for dead by the others while it was in this op.");
}

Status Matching::FailureLocked(std::uint32_t index) const {
  const Cell* cell = table_->cell(index);
  const std::size_t size = std::min<std::size_t>(cell->failure_size, kFailureBytes);
  return Status(static_cast<StatusCode>(cell->failure_code),
                std::string(table_->failure_text(index), size));
}

void Matching::Fail(const CellRef& ref, const Status& failure) {
  Bucket* bucket = table_->BucketOf(ref.key);
  RobustLock lock(&bucket->mutex);
  if (lock.owner_died()) table_->RepairChain(bucket);
  if (IsLocked(ref.cell, ref)) FailLocked(ref.cell, failure);
}

void Matching::FailLocked(std::uint32_t index, const Status& failure) {
  Cell* cell = table_->cell(index);
  if (StateOf(cell) == CellState::kFailed) return;
  const std::string& text = failure.message();
  const std::size_t size = std::min(text.size(), kFailureBytes);
  std::memcpy(table_->failure_text(index), text.data(), size);
  if (size < text.size()) std::memcpy(table_->failure_text(index) + size - 3, "...", 3);
  cell->failure_size = static_cast<std::uint32_t>(size);
  cell->failure_code = static_cast<std::int32_t>(failure.code());
  cell->failed_ns = MonotonicNanoseconds();
  SetState(cell, CellState::kFailed);
  for (std::uint32_t i = 0; i < cell->member_count; ++i) {
    const std::uint32_t flags = table_->member(index, i)->flags;
    const std::uint32_t host_index = table_->host_indexes(index)[i];
    if ((flags & kArrived) != 0 && (flags & kDeparted) == 0 && host_index < table_->host_size()) {
      table_->doorbell(host_index).Notify(index);
    }
  }
}

void Matching::Depart(const CellRef& ref) {
  table_->Moved(ref.key.identity, MonotonicNanoseconds());
  Bucket* bucket = table_->BucketOf(ref.key);
  RobustLock lock(&bucket->mutex);
  if (lock.owner_died()) table_->RepairChain(bucket);
  if (IsLocked(ref.cell, ref)) DepartLocked(bucket, ref.cell, ref.member);
}

void Matching::DepartLocked(Bucket* bucket, std::uint32_t index, std::uint32_t member) {
  std::uint32_t& flags = table_->member(index, member)->flags;
  if ((flags & kDeparted) != 0) return;
  flags |= kDeparted;
  ++table_->cell(index)->departed;
  FreeIfUnusedLocked(bucket, index);
}

}  // namespace comm
}  // namespace npu_bridge
