#include "csrc/transport/shm/operation.h"

#include <cstring>
#include <limits>

#include "csrc/transport/c_boundary.h"
#include "csrc/transport/shm/bell.h"

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

// What a result carries to its release.
struct ResultHold {
  std::shared_ptr<Pool> pool;
  std::uint32_t block;
};

void ReleaseHold(void* context) {
  std::unique_ptr<ResultHold> hold(static_cast<ResultHold*>(context));
  hold->pool->ReleaseResult(hold->block);
}

}  // namespace

std::uint64_t SaturatedProduct(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

std::uint64_t LayOut(const std::vector<std::uint64_t>& bytes, std::vector<std::uint64_t>* offsets) {
  offsets->clear();
  std::uint64_t end = 0;
  for (const std::uint64_t size : bytes) {
    offsets->push_back(end);
    const std::uint64_t aligned = size / kCacheLine + (size % kCacheLine != 0 ? 1 : 0);
    const std::uint64_t rounded = SaturatedProduct(aligned, kCacheLine);
    if (__builtin_add_overflow(end, rounded, &end)) return kMost;
  }
  return end;
}

std::unique_ptr<Operation> MakeOperation(const GroupContext& group,
                                         const npu_transport_request& request, Status* status) {
  *status = Status::Ok();
  if (request.match_id == 0 || request.match_slot >= group.pool->memory().layout().slot_count) {
    *status = Internal("the request has match_id " + std::to_string(request.match_id) +
                       " and match_slot " + std::to_string(request.match_slot) +
                       "; expected an id other than 0 and a slot below " +
                       std::to_string(group.pool->memory().layout().slot_count));
    return nullptr;
  }
  switch (request.collective) {
    case NPU_COLLECTIVE_ALL_REDUCE:
    case NPU_COLLECTIVE_REDUCE:
    case NPU_COLLECTIVE_REDUCE_SCATTER:
      return MakeReducing(group, request);
    case NPU_COLLECTIVE_ALL_GATHER:
    case NPU_COLLECTIVE_BROADCAST:
      return MakeGathering(group, request);
    case NPU_COLLECTIVE_ALL_TO_ALL_V:
      return MakeAllToAll(group, request);
    case NPU_COLLECTIVE_SEND:
    case NPU_COLLECTIVE_RECEIVE:
      return MakePointToPoint(group, request);
    default:
      *status = Unimplemented("the transport 'shm' does not know collective " +
                              std::to_string(request.collective));
      return nullptr;
  }
}

Operation::Operation(const GroupContext& group, const npu_transport_request& request)
    : group_(group), request_(request), results_(request.tensor_count) {
  joining_.match_id = request.match_id;
  joining_.slot = request.match_slot;
  joining_.own_bit = RankBit(group.host_ranks[static_cast<std::size_t>(group.rank)]);
  for (const std::int32_t host_rank : group.host_ranks) joining_.member_bits |= RankBit(host_rank);
}

void Operation::Cancel(const Status& reason) {
  std::lock_guard<std::mutex> lock(cancel_mutex_);
  if (cancelled_.load(std::memory_order_relaxed)) return;
  cancel_reason_ = reason;
  cancelled_.store(true, std::memory_order_release);
}

bool Operation::Advance() {
  if (cancelled_.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(cancel_mutex_);
    status_ = cancel_reason_;
    return true;
  }
  bool ended = false;
  const Status guarded = Guarded([&] {
    ended = Proceed();
    return Status::Ok();
  });
  if (guarded.ok()) return ended;
  status_ = guarded;
  return true;
}

bool Operation::Proceed() {
  if (stage_ == Stage::kNew) {
    stage_ = Prepare(&joining_) ? Stage::kJoining : Stage::kStepping;
  }
  if (stage_ == Stage::kJoining && !TryJoin()) return !status_.ok();
  if (stage_ == Stage::kAbandoned) return false;
  return Step() != Progress::kWaiting;
}

// False when the operation cannot go on now, or (status_ is set) never.
bool Operation::TryJoin() {
  switch (group_.table->Join(joining_)) {
    case JoinOutcome::kNotReady:
      return false;
    case JoinOutcome::kAbandoned:
      stage_ = Stage::kAbandoned;
      return false;
    case JoinOutcome::kJoined:
      break;
  }
  joined_ = true;
  stage_ = Stage::kStepping;
  status_ = group_.table->SetUpStatus(joining_.slot);
  generation_ = group_.table->Generation(joining_.slot);
  work_block_ = group_.table->work_block(joining_.slot);
  result_block_ = group_.table->result_block(joining_.slot);
  if (status_.ok() &&
      ((joining_.work_bytes > 0 && !pool().Contains(work_block_, 0, joining_.work_bytes)) ||
       (joining_.result_bytes > 0 && !pool().Contains(result_block_, 0, joining_.result_bytes)))) {
    status_ = Internal("shared memory is damaged: an operation's blocks are too small for it");
  }
  return status_.ok();
}

void Operation::Finish() {
  LetGo();
  if (joined_) {
    if (status_.ok()) {
      group_.table->LeaveForOthers(joining_);
    } else {
      group_.table->Abandon(joining_);
    }
    group_.table->Leave(joining_);
  }
  npu_transport_status status;
  CopyStatus(status_, &status);
  request_.done(request_.context, &status, status_.ok() ? results_.data() : nullptr);
}

void Operation::Reach(std::int32_t cell, std::uint32_t phase, std::uint32_t block) {
  Cell(cell).state.store(MemberState(generation_, block, phase).Word());
}

MemberState Operation::StateOf(std::int32_t cell) {
  const MemberState state(Cell(cell).state.load());
  return state.generation == generation_ ? state : MemberState();
}

bool Operation::HasReached(std::int32_t cell, std::uint32_t phase) {
  return StateOf(cell).phase >= phase;
}

bool Operation::AllHaveReached(std::uint32_t phase) {
  for (std::int32_t rank = 0; rank < group_.size(); ++rank) {
    if (!HasReached(rank, phase)) return false;
  }
  return true;
}

void Operation::ReachTogether(std::uint32_t phase, std::uint32_t block) {
  Reach(group_.rank, phase, block);
  if (AllHaveReached(phase)) RingOthers();
}

void Operation::RingMember(std::int32_t rank_in_group) {
  Ring(pool().memory().rank(group_.host_ranks[static_cast<std::size_t>(rank_in_group)]));
}

void Operation::RingOthers() {
  for (std::int32_t rank = 0; rank < group_.size(); ++rank) {
    if (rank != group_.rank) RingMember(rank);
  }
}

char* Operation::AllocateResult(std::uint32_t t) {
  const std::uint64_t bytes = ResultBytes(t);
  void* memory = request_.allocate(request_.context, t, bytes);
  if (memory == nullptr) {
    status_ = ResourceExhausted("no memory for a result of " + std::to_string(bytes) + " bytes");
  }
  results_[t].data = memory;
  return static_cast<char*>(memory);
}

Operation::Progress Operation::ResultsAreOwnInputs() {
  for (std::uint32_t t = 0; t < request_.tensor_count; ++t) {
    if (ResultBytes(t) == 0) continue;
    char* result = AllocateResult(t);
    if (result == nullptr) return Progress::kFailed;
    std::memcpy(result, tensor(t).input, ResultBytes(t));
  }
  return Progress::kDone;
}

Operation::Progress Operation::CopyResultsFrom(const char* data,
                                               const std::vector<std::uint64_t>& offsets) {
  for (std::uint32_t t = 0; t < request_.tensor_count; ++t) {
    if (ResultBytes(t) == 0) continue;
    char* result = AllocateResult(t);
    if (result == nullptr) return Progress::kFailed;
    std::memcpy(result, data + offsets[t], ResultBytes(t));
  }
  return Progress::kDone;
}

Operation::Progress Operation::ResultsInBlock(std::uint32_t block,
                                              const std::vector<std::uint64_t>& offsets,
                                              std::uint64_t total_bytes) {
  std::vector<std::unique_ptr<ResultHold>> holds(request_.tensor_count);
  std::uint32_t tensors = 0;
  for (std::uint32_t t = 0; t < request_.tensor_count; ++t) {
    if (ResultBytes(t) == 0) continue;
    holds[t].reset(new ResultHold{group_.pool, block});
    ++tensors;
  }
  if (tensors == 0) return Progress::kDone;
  const Status held = pool().HoldResults(block, tensors, total_bytes);
  if (!held.ok()) return Fail(held);
  char* view = pool().View(block);
  for (std::uint32_t t = 0; t < request_.tensor_count; ++t) {
    if (holds[t] == nullptr) continue;
    results_[t].data = view + offsets[t];
    results_[t].release = ReleaseHold;
    results_[t].release_context = holds[t].release();
  }
  return Progress::kDone;
}

}  // namespace shm
}  // namespace npu_bridge
