// The part of matching that looks at whole cells and frees them.
#include <algorithm>

#include "csrc/comm/matching.h"
#include "csrc/comm/messages.h"

namespace npu_bridge {
namespace comm {

bool Matching::Gone(std::uint32_t host_index) const {
  const auto& ranks = channel_->membership().host_ranks;
  return host_index >= ranks.size() ||
         channel_->state(ranks[host_index]) != control::RankState::kAlive;
}

void Matching::FreeIfUnusedLocked(Bucket* bucket, std::uint32_t index) {
  Cell* cell = table_->cell(index);
  const bool count = someone_gone_.load(std::memory_order_relaxed);
  bool unused = cell->departed >= cell->member_count;
  if (!unused && count) {
    unused = true;
    for (std::uint32_t i = 0; i < cell->member_count && unused; ++i) {
      unused = (table_->member(index, i)->flags & kDeparted) != 0 ||
               Gone(table_->host_indexes(index)[i]);
    }
  }
  if (unused) {
    FreeLocked(bucket, index);
  } else if (cell->state.load() == static_cast<std::uint32_t>(CellState::kFailed) &&
             cell->departed == cell->arrived && cell->abandoned == 0) {
    cell->abandoned = 1;
    table_->header()->abandoned.fetch_add(1);
  }
}

void Matching::FreeLocked(Bucket* bucket, std::uint32_t index) {
  std::uint32_t* link = &bucket->head;
  while (*link != kNoCell && *link != index) link = &table_->cell(*link)->next;
  if (*link != index) return;
  Cell* cell = table_->cell(index);
  *link = cell->next;
  for (std::uint32_t i = 0; i < cell->member_count; ++i) table_->Release(index, i);
  if (cell->abandoned != 0) table_->header()->abandoned.fetch_sub(1);
  cell->state.store(static_cast<std::uint32_t>(CellState::kFree));
  table_->ReturnCell(index);
}

CellView Matching::ViewLocked(std::uint32_t index, bool fingerprints) const {
  const Cell* cell = table_->cell(index);
  CellView view;
  view.cell = index;
  view.match_id = cell->match_id.load();
  view.state = static_cast<CellState>(cell->state.load());
  view.key = cell->key;
  view.step = cell->step;
  view.members.resize(cell->member_count);
  if (fingerprints) view.fingerprints.resize(cell->member_count);
  for (std::uint32_t i = 0; i < cell->member_count; ++i) {
    const CellMember& member = *table_->member(index, i);
    view.members[i].arrived = (member.flags & kArrived) != 0;
    view.members[i].departed = (member.flags & kDeparted) != 0;
    view.members[i].arrived_ns = member.arrived_ns;
    std::string agreement;
    std::string own;
    if (fingerprints && view.members[i].arrived && member.own_size > 0 &&
        table_->Load(index, i, &agreement, &own)) {
      Decode(agreement, own, &view.fingerprints[i]);
    }
  }
  return view;
}

bool Matching::View(const CellRef& ref, CellView* view) {
  Bucket* bucket = table_->BucketOf(ref.key);
  RobustLock lock(&bucket->mutex);
  if (lock.owner_died()) table_->RepairChain(bucket);
  if (!IsLocked(ref.cell, ref)) return false;
  *view = ViewLocked(ref.cell, false);
  return true;
}

std::vector<CellView> Matching::ViewGroup(std::uint64_t identity) {
  std::vector<CellView> views;
  for (Bucket& bucket : table_->header()->buckets) {
    RobustLock lock(&bucket.mutex);
    if (lock.owner_died()) table_->RepairChain(&bucket);
    for (std::uint32_t i = bucket.head; i != kNoCell; i = table_->cell(i)->next) {
      if (table_->cell(i)->key.identity == identity) views.push_back(ViewLocked(i, true));
    }
  }
  return views;
}

void Matching::SomeoneGone() {
  someone_gone_.store(true);
  for (Bucket& bucket : table_->header()->buckets) {
    RobustLock lock(&bucket.mutex);
    if (lock.owner_died()) table_->RepairChain(&bucket);
    std::vector<std::uint32_t> cells;
    for (std::uint32_t i = bucket.head; i != kNoCell; i = table_->cell(i)->next) {
      cells.push_back(i);
    }
    for (std::uint32_t i : cells) FreeIfUnusedLocked(&bucket, i);
  }
}

// A failed cell waits for the ranks that have not come yet, to give them its text. Some never come;
// the older half of what has piled up is let go. A rank that comes to one of those after all finds
// no cell and meets the deadlines instead.
void Matching::ReclaimAbandoned() {
  std::vector<std::int64_t> ages;
  for (Bucket& bucket : table_->header()->buckets) {
    RobustLock lock(&bucket.mutex);
    if (lock.owner_died()) table_->RepairChain(&bucket);
    for (std::uint32_t i = bucket.head; i != kNoCell; i = table_->cell(i)->next) {
      if (table_->cell(i)->abandoned != 0) ages.push_back(table_->cell(i)->failed_ns);
    }
  }
  if (ages.empty()) return;
  const auto middle = ages.begin() + static_cast<std::ptrdiff_t>(ages.size() / 2);
  std::nth_element(ages.begin(), middle, ages.end());
  const std::int64_t oldest_kept = *middle;
  for (Bucket& bucket : table_->header()->buckets) {
    RobustLock lock(&bucket.mutex);
    std::vector<std::uint32_t> cells;
    for (std::uint32_t i = bucket.head; i != kNoCell; i = table_->cell(i)->next) {
      const Cell* cell = table_->cell(i);
      if (cell->abandoned != 0 && cell->departed == cell->arrived &&
          cell->failed_ns < oldest_kept) {
        cells.push_back(i);
      }
    }
    for (std::uint32_t i : cells) FreeLocked(&bucket, i);
  }
}

// "rank 1 waits", "ranks 0,2 wait": the members that have arrived.
std::string Matching::WhoWaits(std::uint32_t index, const Arrival& arrival) const {
  std::vector<std::int32_t> there;
  for (std::size_t i = 0; i < arrival.ranks.size(); ++i) {
    if ((table_->member(index, static_cast<std::uint32_t>(i))->flags & kArrived) != 0) {
      there.push_back(arrival.ranks[i]);
    }
  }
  if (there.empty()) return "others wait";
  return DescribeRanks(arrival.group, there) + (there.size() == 1 ? " waits" : " wait");
}

}  // namespace comm
}  // namespace npu_bridge
