// A request on its way, as one member sees it.
//
// An operation goes forward in steps and never blocks: where it has to wait for other members it
// says so, and whoever drives it (engine.h) asks again later.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_OPERATION_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/common/status.h"
#include "csrc/transport/shm/operation_table.h"
#include "csrc/transport/shm/pool.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace shm {

// Results up to this size are copied to the caller's memory: cheaper than keeping a page for each.
constexpr std::uint64_t kInlineBytes = std::uint64_t{32} << 10;

// What all operations of a group share.
struct GroupContext {
  std::shared_ptr<Pool> pool;  // kept by every result that is handed out
  OperationTable* table = nullptr;
  std::string name;
  std::int32_t rank = 0;                 // in the group
  std::vector<std::int32_t> host_ranks;  // by rank in the group

  std::int32_t size() const { return static_cast<std::int32_t>(host_ranks.size()); }
};

class Operation {
 public:
  Operation(const GroupContext& group, const npu_transport_request& request);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  std::uint64_t match_id() const { return request_.match_id; }

  // Waits for another member to set the record up: the one wait that no bell ends.
  bool is_joining() const { return stage_ == Stage::kJoining; }

  // Goes on as far as possible. True when the operation has ended. One thread at a time.
  bool Advance();
  // Leaves the record and calls done(). After Advance() has returned true.
  void Finish();
  // Any thread: the next Advance() ends the operation with `reason`.
  void Cancel(const Status& reason);

  // Links of the engine's list.
  Operation* previous = nullptr;
  Operation* next = nullptr;

 protected:
  enum class Progress { kWaiting, kDone, kFailed };

  // Called once, before the members meet: says what to meet with. False: no need to.
  virtual bool Prepare(Joining* joining) = 0;
  // Called when the members have met, until it says that it is done.
  virtual Progress Step() = 0;
  // Called once at the end. The group may be destroyed as soon as done() has been called, so
  // destructors let go of nothing.
  virtual void LetGo() {}

  Progress Fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }

  const GroupContext& group() const { return group_; }
  const npu_transport_request& request() const { return request_; }
  const npu_transport_tensor& tensor(std::uint32_t t) const { return request_.tensors[t]; }
  std::uint64_t InputBytes(std::uint32_t t) const {
    return tensor(t).input_count * tensor(t).element_size;
  }
  std::uint64_t ResultBytes(std::uint32_t t) const {
    return tensor(t).result_count * tensor(t).element_size;
  }
  Pool& pool() { return *group_.pool; }
  std::uint32_t work_block() const { return work_block_; }
  std::uint32_t result_block() const { return result_block_; }

  // Phases: how far each member is. `cell` is a member's rank in the group, unless the operation
  // numbers its members otherwise. `block`, once given, is given with every later phase, and goes
  // with the operation's record.
  void Reach(std::int32_t cell, std::uint32_t phase, std::uint32_t block = kNoBlock);
  MemberState StateOf(std::int32_t cell);
  bool HasReached(std::int32_t cell, std::uint32_t phase);
  bool AllHaveReached(std::uint32_t phase);
  // Reach() for a phase that all members wait for each other in: only the last one wakes the rest.
  void ReachTogether(std::uint32_t phase, std::uint32_t block = kNoBlock);
  void RingMember(std::int32_t rank_in_group);
  void RingOthers();

  // Memory of the caller's for result `t`; nullptr (and status_ set) when there is none.
  char* AllocateResult(std::uint32_t t);
  // Copies the rank's own inputs into results of the caller's memory.
  Progress ResultsAreOwnInputs();
  // The results lie in `block`, tensor t at offsets[t]; `total_bytes` is where the last one ends.
  Progress ResultsInBlock(std::uint32_t block, const std::vector<std::uint64_t>& offsets,
                          std::uint64_t total_bytes);
  // The same, by copying: for results up to kInlineBytes.
  Progress CopyResultsFrom(const char* data, const std::vector<std::uint64_t>& offsets);

  Status status_;

 private:
  // kAbandoned: the other members have given up, and the caller will cancel this one as well.
  enum class Stage { kNew, kJoining, kStepping, kAbandoned };

  MemberCell& Cell(std::int32_t cell) { return pool().memory().cell(request_.match_slot, cell); }
  bool Proceed();
  bool TryJoin();

  const GroupContext& group_;
  const npu_transport_request request_;
  Joining joining_;
  Stage stage_ = Stage::kNew;
  bool joined_ = false;
  std::uint32_t generation_ = 0;
  std::uint32_t work_block_ = kNoBlock;
  std::uint32_t result_block_ = kNoBlock;
  std::vector<npu_transport_result> results_;

  std::atomic<bool> cancelled_{false};
  std::mutex cancel_mutex_;  // guards cancel_reason_
  Status cancel_reason_;
};

// The operation for a request; nullptr with a status when the transport does not know it.
std::unique_ptr<Operation> MakeOperation(const GroupContext& group,
                                         const npu_transport_request& request, Status* status);

// One per family; MakeOperation picks.
std::unique_ptr<Operation> MakeReducing(const GroupContext&, const npu_transport_request&);
std::unique_ptr<Operation> MakeGathering(const GroupContext&, const npu_transport_request&);
std::unique_ptr<Operation> MakeAllToAll(const GroupContext&, const npu_transport_request&);
std::unique_ptr<Operation> MakePointToPoint(const GroupContext&, const npu_transport_request&);

// Where tensors of the given sizes lie one after another, each on a cache line of its own. Returns
// the bytes of all, saturated at UINT64_MAX.
std::uint64_t LayOut(const std::vector<std::uint64_t>& bytes, std::vector<std::uint64_t>* offsets);
std::uint64_t SaturatedProduct(std::uint64_t a, std::uint64_t b);

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_OPERATION_H_
