#include "csrc/comm/cell_table.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "csrc/comm/hash.h"
#include "csrc/common/futex.h"

namespace npu_bridge {
namespace comm {
namespace {

constexpr std::uint32_t kMaking = 1;
constexpr std::uint32_t kMade = 2;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Where things lie depends on the number of ranks on the host alone, which all of them know.
struct Places {
  explicit Places(std::uint32_t host_size) {
    members_at = RoundUp(sizeof(Cell) + host_size * sizeof(std::uint32_t), 64);
    cell_bytes = members_at + host_size * sizeof(CellMember);
    areas_at = RoundUp(sizeof(TableHeader), 4096);
    cells_at = RoundUp(areas_at + host_size * sizeof(RankArea), 4096);
    failures_at = RoundUp(cells_at + kCellCount * cell_bytes, 4096);
    heap_at = failures_at + std::uint64_t{kCellCount} * kFailureBytes;
    total = heap_at + kHeapBytes;
  }

  std::uint64_t Layout() const { return HashCombine(HashCombine(1, total), sizeof(TableHeader)); }

  std::uint64_t members_at;
  std::uint64_t cell_bytes;
  std::uint64_t areas_at;
  std::uint64_t cells_at;
  std::uint64_t failures_at;
  std::uint64_t heap_at;
  std::uint64_t total;
};

}  // namespace

Status CellTable::Open(control::HostChannel* channel, std::unique_ptr<CellTable>* table) {
  const control::HostMembership& membership = channel->membership();
  const auto host_size = static_cast<std::uint32_t>(membership.host_ranks.size());
  const Places places(host_size);
  int descriptor = -1;
  Status status = channel->ShareSegment("matching", places.total, &descriptor);
  if (!status.ok()) return status;
  std::shared_ptr<SharedMapping> mapping = SharedMapping::Of(descriptor, places.total);
  const int map_error = errno;
  close(descriptor);
  if (mapping == nullptr) {
    return ResourceExhausted(
        "The matching table (" + std::to_string(places.total >> 20) +
        " MiB of address space, sparse) cannot be mapped: " + std::strerror(map_error) +
        ". Is a limit on address space set "
        "(ulimit -v)?");
  }
  table->reset(new CellTable(std::move(mapping), host_size));
  TableHeader* header = (*table)->header_;

  std::uint32_t expected = 0;
  if (header->ready.compare_exchange_strong(expected, kMaking)) {
    header->maker.store(static_cast<std::uint32_t>(membership.host_rank) + 1);
    header->layout = places.Layout();
    (*table)->Initialise();
    header->ready.store(kMade);
    FutexWake(header->ready, static_cast<int>(host_size));
  }
  while (header->ready.load() != kMade) {
    FutexWait(header->ready, kMaking, 100);
    const std::uint32_t maker = header->maker.load();
    if (maker == 0 || maker > host_size || header->ready.load() == kMade) continue;
    const std::int32_t rank = membership.host_ranks[maker - 1];
    if (channel->state(rank) != control::RankState::kAlive) {
      return Internal("Rank " + std::to_string(rank) + " (" + channel->DescribeRank(rank) +
                      ") ended while the ranks of this host started.");
    }
  }
  if (header->layout != places.Layout()) {
    return Internal(
        "The ranks of this host run different versions of this package: their "
        "matching tables differ. Install one version for all of them.");
  }
  return Status::Ok();
}

Status CellTable::AwaitOthers(const control::HostChannel& channel,
                              const std::atomic<bool>& interrupted) {
  std::atomic<std::uint32_t>& opened = header_->opened;
  opened.fetch_add(1);
  FutexWake(opened, static_cast<int>(host_size_));
  const std::vector<std::int32_t>& ranks = channel.membership().host_ranks;
  for (std::uint32_t count = opened.load(); count < host_size_; count = opened.load()) {
    if (interrupted.load()) return Cancelled("Interrupted while the other ranks started.");
    // One that has gone will not come; the ops that need it say so.
    if (std::any_of(ranks.begin(), ranks.end(), [&channel](std::int32_t rank) {
          return channel.state(rank) != control::RankState::kAlive;
        })) {
      break;
    }
    FutexWait(opened, count, 100);
  }
  return Status::Ok();
}

CellTable::CellTable(std::shared_ptr<SharedMapping> mapping, std::uint32_t host_size)
    : mapping_(std::move(mapping)),
      base_(mapping_->base()),
      host_size_(host_size),
      header_(reinterpret_cast<TableHeader*>(base_)),
      heap_(&header_->heap, base_ + Places(host_size).heap_at) {
  const Places places(host_size);
  cells_ = base_ + places.cells_at;
  cell_bytes_ = places.cell_bytes;
  members_at_ = places.members_at;
  areas_ = reinterpret_cast<RankArea*>(base_ + places.areas_at);
  failures_ = base_ + places.failures_at;
}

void CellTable::Initialise() {
  header_->next_match_id.store(1);
  header_->free_mutex.Initialise();
  header_->free_head = kNoCell;
  header_->never_used = 0;
  header_->detector_mutex.Initialise();
  for (Bucket& bucket : header_->buckets) {
    bucket.mutex.Initialise();
    bucket.head = kNoCell;
  }
  heap_.Initialise();
}

Doorbell CellTable::doorbell(std::uint32_t host_index) const {
  return Doorbell(areas_ + host_index);
}

Cell* CellTable::cell(std::uint32_t index) const {
  return reinterpret_cast<Cell*>(cells_ + index * cell_bytes_);
}

std::uint32_t* CellTable::host_indexes(std::uint32_t index) const {
  return reinterpret_cast<std::uint32_t*>(cells_ + index * cell_bytes_ + sizeof(Cell));
}

CellMember* CellTable::member(std::uint32_t index, std::uint32_t member) const {
  return reinterpret_cast<CellMember*>(cells_ + index * cell_bytes_ + members_at_) + member;
}

char* CellTable::failure_text(std::uint32_t index) const {
  return failures_ + std::uint64_t{index} * kFailureBytes;
}

std::uint32_t CellTable::TakeCell() {
  RobustLock lock(&header_->free_mutex);
  std::uint32_t index = header_->free_head;
  if (index < kCellCount) {
    header_->free_head = cell(index)->next;
  } else if (header_->never_used < kCellCount) {
    index = header_->never_used++;
  } else {
    return kNoCell;
  }
  ++header_->in_use;
  return index;
}

void CellTable::ReturnCell(std::uint32_t index) {
  RobustLock lock(&header_->free_mutex);
  cell(index)->next = header_->free_head;
  header_->free_head = index;
  --header_->in_use;
}

std::uint32_t CellTable::CellsEverUsed() {
  RobustLock lock(&header_->free_mutex);
  return header_->never_used < kCellCount ? header_->never_used : kCellCount;
}

std::uint32_t CellTable::CellsInUse() {
  RobustLock lock(&header_->free_mutex);
  return header_->in_use;
}

Bucket* CellTable::BucketOf(const CellKey& key) const {
  std::uint64_t hash = HashCombine(key.identity, key.tag_low);
  hash = HashCombine(hash, key.frame_id);
  hash = HashCombine(hash, static_cast<std::uint64_t>(key.iteration));
  return &header_->buckets[hash % kBucketCount];
}

void CellTable::RepairChain(Bucket* bucket) const {
  std::uint32_t* link = &bucket->head;
  for (std::uint32_t steps = 0; *link != kNoCell; ++steps) {
    if (*link >= kCellCount || steps >= kCellCount ||
        cell(*link)->state.load() == static_cast<std::uint32_t>(CellState::kFree) ||
        cell(*link)->member_count > host_size_) {
      *link = kNoCell;
      return;
    }
    link = &cell(*link)->next;
  }
}

bool CellTable::Store(std::uint32_t index, std::uint32_t member_index, const std::string& agreement,
                      const std::string& own) {
  CellMember* place = member(index, member_index);
  const bool shared = cell(index)->first_member != kNobody && AgreesWithFirst(index, agreement);
  const std::size_t agreement_size = shared ? 0 : agreement.size();
  const std::size_t size = agreement_size + own.size();
  char* target = place->inline_bytes;
  place->heap_block = 0;
  if (size > kInlineBytes) {
    place->heap_block = heap_.Allocate(size);
    if (place->heap_block == 0) return false;
    target = heap_.Address(place->heap_block, size);
  }
  std::memcpy(target, agreement.data(), agreement_size);
  std::memcpy(target + agreement_size, own.data(), own.size());
  place->own_size = static_cast<std::uint32_t>(own.size());
  place->agreement_size = shared ? kSharedAgreement : static_cast<std::uint32_t>(agreement.size());
  if (cell(index)->first_member == kNobody) {
    cell(index)->first_member = member_index;
  } else if (!shared) {
    cell(index)->agreement_differs = 1;
  }
  return true;
}

const char* CellTable::BytesOf(const CellMember& place, std::size_t size) const {
  if (place.heap_block != 0) return heap_.Address(place.heap_block, size);
  return size <= kInlineBytes ? place.inline_bytes : nullptr;
}

bool CellTable::AgreesWithFirst(std::uint32_t index, const std::string& agreement) const {
  const std::uint32_t first = cell(index)->first_member;
  if (first >= host_size_) return false;
  const CellMember& place = *member(index, first);
  if (place.agreement_size != agreement.size()) return false;
  const char* bytes = BytesOf(place, agreement.size());
  return bytes != nullptr && std::memcmp(bytes, agreement.data(), agreement.size()) == 0;
}

bool CellTable::Load(std::uint32_t index, std::uint32_t member_index, std::string* agreement,
                     std::string* own) const {
  const CellMember& place = *member(index, member_index);
  const bool shared = place.agreement_size == kSharedAgreement;
  const std::size_t agreement_size = shared ? 0 : place.agreement_size;
  const char* bytes = BytesOf(place, agreement_size + place.own_size);
  if (bytes == nullptr) return false;
  own->assign(bytes + agreement_size, place.own_size);
  if (!shared) {
    agreement->assign(bytes, agreement_size);
    return true;
  }
  const std::uint32_t first = cell(index)->first_member;
  if (first >= host_size_ || member(index, first)->agreement_size == kSharedAgreement) return false;
  const CellMember& source = *member(index, first);
  bytes = BytesOf(source, source.agreement_size);
  if (bytes == nullptr) return false;
  agreement->assign(bytes, source.agreement_size);
  return true;
}

void CellTable::Release(std::uint32_t index, std::uint32_t member_index) {
  CellMember* place = member(index, member_index);
  if (place->heap_block == 0) return;
  const std::size_t agreement_size =
      place->agreement_size == kSharedAgreement ? 0 : place->agreement_size;
  heap_.Free(place->heap_block, agreement_size + place->own_size);
  place->heap_block = 0;
}

std::int64_t CellTable::LastMovement(std::uint64_t identity) const {
  return header_->movement[identity % kMovementSlots].load(std::memory_order_relaxed);
}

void CellTable::Moved(std::uint64_t identity, std::int64_t now) {
  // Not at every op: the line would go back and forth between all processors.
  constexpr std::int64_t kResolution = 50 * 1000 * 1000;
  std::atomic<std::int64_t>& last = header_->movement[identity % kMovementSlots];
  const std::int64_t before = last.load(std::memory_order_relaxed);
  if (now - before > kResolution) last.store(now, std::memory_order_relaxed);
}

}  // namespace comm
}  // namespace npu_bridge
