// Which calls belong together: ranks meet in cells of the shared table, under the key of their
// request, and see before any data moves whether they agree. See docs/decisions/0002-matching.md.
#ifndef NPU_BRIDGE_CSRC_COMM_MATCHING_H_
#define NPU_BRIDGE_CSRC_COMM_MATCHING_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "csrc/comm/cell_table.h"
#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/fingerprint.h"
#include "csrc/comm/group_table.h"
#include "csrc/common/collective_request.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace comm {

// What a rank brings to a cell.
struct Arrival {
  Arrival(const Group& group, const CollectiveRequest& request);

  const Group& group;
  const CollectiveRequest& request;
  CellKey key;
  std::uint64_t step = 0;
  std::uint32_t member = 0;         // this rank's place among the cell's members
  std::vector<std::int32_t> ranks;  // of the members, in the group
};

// A cell that this rank has arrived in and not departed from: until then it cannot be freed.
struct CellRef {
  std::uint32_t cell = kNoCell;
  std::uint64_t match_id = 0;
  std::uint32_t member = 0;
  CellKey key;
};

struct MemberView {
  bool arrived = false;
  bool departed = false;
  std::int64_t arrived_ns = 0;
};

struct CellView {
  std::uint32_t cell = kNoCell;
  std::uint64_t match_id = 0;
  CellState state = CellState::kFree;
  CellKey key;
  std::uint64_t step = 0;
  std::vector<MemberView> members;
  // Of the members that have arrived and can be read; the others' are empty. ViewGroup only.
  std::vector<Fingerprint> fingerprints;
};

// Any thread may call any member. No lock is held while a rank's doorbell is rung, except where a
// cell fails.
class Matching {
 public:
  Matching(CellTable* table, control::HostChannel* channel) : table_(table), channel_(channel) {}

  // Joins the cell of the request, or makes it. When the arrival completes the cell this rank
  // compares the fingerprints for all. Ok: `ref` and `state` (open, matched or failed) are set and
  // the rank must depart. Else: the request has failed here, and everywhere it could have met.
  Status Arrive(const Arrival& arrival, CellRef* ref, CellState* state);

  // A refusal found before arriving: fails the cell for all with this text. The rank owes no
  // departure.
  void Refuse(const Arrival& arrival, const Status& refusal);

  // kFree: the cell was taken away, since the others hold this rank for dead.
  CellState State(const CellRef& ref) const;
  // The text that all ranks of a failed cell get.
  Status Failure(const CellRef& ref);
  std::uint64_t Order(const CellRef& ref) const;
  // By rank 0 of the group. False: the cell has failed, and never gets a place in the order.
  bool AnnounceOrder(const CellRef& ref, std::uint64_t order);

  // How this rank learns of the cell's next change.
  void SetWaiting(const CellRef& ref, Waiting waiting);

  // Fails an open or matched cell; the first failure stands. `ref` may be another rank's.
  void Fail(const CellRef& ref, const Status& failure);
  void Depart(const CellRef& ref);

  // True once: the caller prints the cell's stall warning.
  bool ClaimWarning(const CellRef& ref);

  bool View(const CellRef& ref, CellView* view);
  // All cells of one group.
  std::vector<CellView> ViewGroup(std::uint64_t identity);

  // Some rank has left or died: frees what only waited for it.
  void SomeoneGone();

 private:
  struct Found;

  Found SearchLocked(Bucket* bucket, const Arrival& arrival);
  std::uint32_t CreateLocked(Bucket* bucket, const Arrival& arrival);
  Status RefuseLocked(Bucket* bucket, const Found& found, const Arrival& arrival,
                      const Status& refusal);
  void FailLocked(std::uint32_t index, const Status& failure);
  void DepartLocked(Bucket* bucket, std::uint32_t index, std::uint32_t member);
  void FreeIfUnusedLocked(Bucket* bucket, std::uint32_t index);
  void FreeLocked(Bucket* bucket, std::uint32_t index);
  Status FailureLocked(std::uint32_t index) const;
  CellView ViewLocked(std::uint32_t index, bool fingerprints) const;
  bool IsLocked(std::uint32_t index, const CellRef& ref) const;

  void Compare(const Arrival& arrival, const CellRef& ref);
  void NotifyParked(const CellRef& ref);
  void ReclaimAbandoned();
  bool Gone(std::uint32_t host_index) const;
  std::string WhoWaits(std::uint32_t index, const Arrival& arrival) const;

  CellTable* const table_;
  control::HostChannel* const channel_;
  // While nobody is gone, counting departures is enough to know that a cell is free.
  std::atomic<bool> someone_gone_{false};
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_MATCHING_H_
