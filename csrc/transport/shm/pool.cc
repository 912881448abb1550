#include "csrc/transport/shm/pool.h"

#include <time.h>

#include <algorithm>

#include "csrc/common/memory_available.h"

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// Memory is asked for before it is touched, but not for every small block: the question takes as
// long as touching a megabyte.
constexpr std::uint64_t kAskBytes = 4 * kMiB;
constexpr std::uint64_t kLargePage = 2 * kMiB;
constexpr std::uint64_t kIdleMs = 10000;

std::uint64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

std::string InMiB(std::uint64_t bytes) {
  return std::to_string((bytes + kMiB - 1) / kMiB) + " MiB";
}

}  // namespace

Pool::Pool(std::unique_ptr<SharedMemory> memory, std::int32_t host_rank,
           std::uint64_t idle_buffer_bytes, std::uint64_t limit_bytes)
    : memory_(std::move(memory)),
      host_rank_(host_rank),
      idle_buffer_bytes_(idle_buffer_bytes),
      limit_bytes_(limit_bytes),
      local_(new LocalBlock[kMaxBlocks + 1]) {}

bool Pool::IsBlock(std::uint32_t block) {
  if (block == kNoBlock || block > kMaxBlocks) return false;
  const BlockRecord& record = memory_->block(block);
  const std::uint32_t size_class = record.size_class.load(std::memory_order_relaxed);
  const std::uint64_t offset = record.offset.load(std::memory_order_relaxed);
  return size_class < kSizeClassCount && offset % memory_->page_bytes() == 0 &&
         SizeOfClass(size_class) <= memory_->data_bytes() &&
         offset <= memory_->data_bytes() - SizeOfClass(size_class);
}

bool Pool::Contains(std::uint32_t block, std::uint64_t offset, std::uint64_t bytes) {
  if (!IsBlock(block)) return false;
  const std::uint64_t size = SizeOfClass(memory_->block(block).size_class.load());
  return offset <= size && bytes <= size - offset;
}

char* Pool::Data(std::uint32_t block) {
  return IsBlock(block) ? memory_->data() + memory_->block(block).offset.load() : nullptr;
}

char* Pool::View(std::uint32_t block) {
  return IsBlock(block) ? memory_->view() + memory_->block(block).offset.load() : nullptr;
}

bool Pool::Pop(std::uint32_t size_class, bool warm, std::uint32_t* block) {
  std::atomic<std::uint64_t>& top = memory_->stack(size_class, warm).top;
  std::uint64_t seen = top.load(std::memory_order_acquire);
  while (true) {
    const std::uint32_t first = static_cast<std::uint32_t>(seen);
    if (!IsBlock(first)) return false;
    const std::uint32_t next = memory_->block(first).next.load(std::memory_order_relaxed);
    const std::uint64_t count = (seen >> 32) + 1;
    if (top.compare_exchange_weak(seen, (count << 32) | next, std::memory_order_acq_rel)) {
      *block = first;
      return true;
    }
  }
}

void Pool::Push(std::uint32_t block) {
  BlockRecord& record = memory_->block(block);
  const bool warm = record.resident_bytes.load(std::memory_order_relaxed) > 0;
  std::atomic<std::uint64_t>& top = memory_->stack(record.size_class.load(), warm).top;
  std::uint64_t seen = top.load(std::memory_order_relaxed);
  do {
    record.next.store(static_cast<std::uint32_t>(seen), std::memory_order_relaxed);
  } while (!top.compare_exchange_weak(seen, (((seen >> 32) + 1) << 32) | block,
                                      std::memory_order_acq_rel));
}

Status Pool::Carve(std::uint32_t size_class, std::uint32_t* block) {
  const std::uint64_t size = SizeOfClass(size_class);
  // Large blocks can then be mapped with large pages.
  const std::uint64_t alignment = size >= kLargePage ? kLargePage : kSmallestBlock / 4;
  Header& header = memory_->header();
  std::uint64_t carved = header.carved_bytes.load();
  std::uint64_t offset = 0;
  do {
    offset = (carved + alignment - 1) / alignment * alignment;
    if (size > memory_->data_bytes() || offset > memory_->data_bytes() - size) {
      return ResourceExhausted("the shared memory of this host has no addresses left for " +
                               InMiB(size) + ": " + InMiB(carved) + " of " +
                               InMiB(memory_->data_bytes()) + " are taken.");
    }
  } while (!header.carved_bytes.compare_exchange_weak(carved, offset + size));
  std::uint32_t count = header.block_count.load();
  do {
    if (count >= kMaxBlocks) {
      return ResourceExhausted("this host holds " + std::to_string(kMaxBlocks) +
                               " blocks of results at once, the most that the transport 'shm' can "
                               "keep. Let go of results that are no longer needed.");
    }
  } while (!header.block_count.compare_exchange_weak(count, count + 1));
  *block = count + 1;
  memory_->block(*block).offset.store(offset);
  memory_->block(*block).size_class.store(size_class);
  return Status::Ok();
}

Status Pool::Allocate(std::uint64_t bytes, std::uint32_t* block) {
  const std::uint32_t size_class = SizeClassFor(bytes);
  if (size_class == kSizeClassCount) return OutOfMemory(bytes);
  std::uint32_t found = kNoBlock;
  // The next class up wastes address space only: what is touched depends on `bytes`.
  const bool reused = Pop(size_class, true, &found) ||
                      (size_class + 1 < kSizeClassCount && Pop(size_class + 1, true, &found)) ||
                      Pop(size_class, false, &found);
  if (!reused) {
    const Status carved = Carve(size_class, &found);
    if (!carved.ok()) return carved;
  }
  const Status grown = Grow(found, bytes);
  if (!grown.ok()) {
    Push(found);
    return grown;
  }
  memory_->block(found).holders.store(kOperationBit, std::memory_order_release);
  *block = found;
  return Status::Ok();
}

bool Pool::Reserve(std::uint64_t bytes) {
  std::atomic<std::uint64_t>& resident = memory_->header().resident_bytes;
  std::uint64_t seen = resident.load();
  do {
    if (limit_bytes_ > 0 && (seen > limit_bytes_ || bytes > limit_bytes_ - seen)) return false;
  } while (!resident.compare_exchange_weak(seen, seen + bytes));
  return true;
}

Status Pool::Grow(std::uint32_t block, std::uint64_t bytes) {
  BlockRecord& record = memory_->block(block);
  const std::uint64_t page = memory_->page_bytes();
  const std::uint64_t wanted = (bytes + page - 1) / page * page;
  const std::uint64_t resident = record.resident_bytes.load();
  if (wanted <= resident) return Status::Ok();
  const std::uint64_t growth = wanted - resident;
  bool reserved = Reserve(growth);
  if (!reserved) {
    Trim(0, 0);
    reserved = Reserve(growth);
  }
  if (!reserved) return OutOfMemory(bytes);
  if (growth >= kAskBytes && AvailableMemoryBytes() < growth) {
    Trim(0, 0);
    const std::uint64_t available = AvailableMemoryBytes();
    if (available < growth) {
      memory_->header().resident_bytes.fetch_sub(growth);
      return ResourceExhausted("results need " + InMiB(growth) + " more of shared memory, but " +
                               InMiB(available) + " of memory are available on this host.");
    }
  }
  record.resident_bytes.store(wanted);
  return Status::Ok();
}

Status Pool::OutOfMemory(std::uint64_t bytes) const {
  if (limit_bytes_ == 0) {
    return ResourceExhausted("no shared memory for a block of " + InMiB(bytes) + ".");
  }
  Pool* self = const_cast<Pool*>(this);
  return ResourceExhausted(
      "this operation needs " + InMiB(bytes) +
      " of shared memory for a block; results and "
      "operations hold " +
      InMiB(self->BytesInUse()) + ", and NPU_BRIDGE_POOL_LIMIT allows " + InMiB(limit_bytes_) +
      " for all ranks of this host together. Let go of results that are no longer needed, or raise "
      "NPU_BRIDGE_POOL_LIMIT.");
}

Status Pool::PrepareWrite(std::uint32_t block, std::uint64_t offset, std::uint64_t bytes) {
  if (!Contains(block, offset, bytes)) {
    return Internal("shared memory is damaged: block " + std::to_string(block) +
                    " does not hold what it should.");
  }
  if (bytes < kSmallestBlock) return Status::Ok();
  LocalBlock& local = local_[block];
  const std::uint32_t trims = memory_->block(block).trims.load(std::memory_order_relaxed);
  const bool trimmed = local.populated_trims.load(std::memory_order_relaxed) != trims;
  const std::uint64_t begin = local.populated_begin.load(std::memory_order_relaxed);
  const std::uint64_t end = trimmed ? begin : local.populated_end.load(std::memory_order_relaxed);
  if (offset >= begin && offset + bytes <= end) return Status::Ok();
  const Status populated = memory_->Populate(memory_->block(block).offset.load() + offset, bytes);
  if (!populated.ok()) return populated;
  // One range is remembered: ranks write the same part of a block in every step.
  const bool joins = begin < end && offset <= end && offset + bytes >= begin;
  local.populated_begin.store(joins ? std::min(begin, offset) : offset, std::memory_order_relaxed);
  local.populated_end.store(joins ? std::max(end, offset + bytes) : offset + bytes,
                            std::memory_order_relaxed);
  local.populated_trims.store(trims, std::memory_order_relaxed);
  return Status::Ok();
}

Status Pool::HoldResults(std::uint32_t block, std::uint32_t tensors, std::uint64_t bytes) {
  BlockRecord& record = memory_->block(block);
  LocalBlock& local = local_[block];
  if (local.view_open.load(std::memory_order_relaxed) == 0) {
    const Status opened =
        memory_->OpenView(record.offset.load(), SizeOfClass(record.size_class.load()));
    if (!opened.ok()) return opened;
    local.view_open.store(1, std::memory_order_relaxed);
  }
  const std::uint64_t page = memory_->page_bytes();
  local.result_bytes.store((bytes + page - 1) / page * page, std::memory_order_relaxed);
  local.results.store(tensors, std::memory_order_release);
  record.holders.fetch_or(RankBit(host_rank_), std::memory_order_acq_rel);
  return Status::Ok();
}

void Pool::ReleaseResult(std::uint32_t block) {
  if (memory_->InForkedChild()) return;
  LocalBlock& local = local_[block];
  if (local.results.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  memory_->ResetView(memory_->block(block).offset.load(),
                     local.result_bytes.load(std::memory_order_relaxed));
  Drop(block, RankBit(host_rank_));
}

void Pool::Drop(std::uint32_t block, std::uint64_t holder) {
  if (!IsBlock(block)) return;
  BlockRecord& record = memory_->block(block);
  const std::uint64_t before = record.holders.fetch_and(~holder, std::memory_order_acq_rel);
  if ((before & holder) == 0 || (before & ~holder) != 0) return;
  record.freed_at_ms.store(NowMs(), std::memory_order_relaxed);
  Push(block);
}

void Pool::DropRank(std::int32_t host_rank) {
  const std::uint32_t count = std::min(memory_->header().block_count.load(), kMaxBlocks);
  for (std::uint32_t block = 1; block <= count; ++block) {
    if ((memory_->block(block).holders.load() & RankBit(host_rank)) != 0) {
      Drop(block, RankBit(host_rank));
    }
  }
}

void Pool::TrimIdle() {
  if (memory_->header().resident_bytes.load() > idle_buffer_bytes_) {
    Trim(kIdleMs, idle_buffer_bytes_);
  }
}

void Pool::Trim(std::uint64_t age_ms, std::uint64_t keep_bytes) {
  struct Free {
    std::uint32_t block;
    std::uint64_t freed_at_ms;
    std::uint64_t bytes;
  };
  std::vector<Free> free;
  for (std::uint32_t size_class = 0; size_class < kSizeClassCount; ++size_class) {
    std::uint32_t block = kNoBlock;
    while (Pop(size_class, true, &block)) {
      const BlockRecord& record = memory_->block(block);
      free.push_back({block, record.freed_at_ms.load(), record.resident_bytes.load()});
    }
  }
  std::sort(free.begin(), free.end(),
            [](const Free& a, const Free& b) { return a.freed_at_ms > b.freed_at_ms; });
  const std::uint64_t now = NowMs();
  std::uint64_t kept_bytes = 0;
  auto is_kept = [&](const Free& entry) {
    const bool young = now - std::min(now, entry.freed_at_ms) < age_ms;
    if (!young && kept_bytes + entry.bytes > keep_bytes) return false;
    kept_bytes += entry.bytes;
    return true;
  };
  const auto given_back = std::stable_partition(free.begin(), free.end(), is_kept);
  // The kept ones first, since ranks may be looking for them; the youngest ends up on top.
  for (auto entry = given_back; entry != free.begin();) Push((--entry)->block);
  for (auto entry = given_back; entry != free.end(); ++entry) {
    BlockRecord& record = memory_->block(entry->block);
    if (memory_->Punch(record.offset.load(), entry->bytes)) {
      record.resident_bytes.store(0);
      record.trims.fetch_add(1);
      memory_->header().resident_bytes.fetch_sub(entry->bytes);
      memory_->header().trimmed_bytes.fetch_add(entry->bytes);
    }
    Push(entry->block);
  }
}

std::uint64_t Pool::BytesInUse() {
  std::uint64_t bytes = 0;
  const std::uint32_t count = std::min(memory_->header().block_count.load(), kMaxBlocks);
  for (std::uint32_t block = 1; block <= count; ++block) {
    const BlockRecord& record = memory_->block(block);
    if (record.holders.load() != 0) bytes += record.resident_bytes.load();
  }
  return bytes;
}

std::string Pool::Describe() {
  const std::uint32_t count = std::min(memory_->header().block_count.load(), kMaxBlocks);
  std::uint32_t in_use = 0;
  std::uint32_t held_here = 0;
  for (std::uint32_t block = 1; block <= count; ++block) {
    const std::uint64_t holders = memory_->block(block).holders.load();
    if (holders != 0) ++in_use;
    if ((holders & RankBit(host_rank_)) != 0) ++held_here;
  }
  const Header& header = memory_->header();
  return "pool_blocks=" + std::to_string(count) + "\npool_blocks_in_use=" + std::to_string(in_use) +
         "\npool_blocks_held_here=" + std::to_string(held_here) +
         "\npool_bytes_in_use=" + std::to_string(BytesInUse()) +
         "\npool_bytes_resident=" + std::to_string(header.resident_bytes.load()) +
         "\npool_bytes_trimmed=" + std::to_string(header.trimmed_bytes.load()) +
         "\npool_bytes_carved=" + std::to_string(header.carved_bytes.load()) + "\n";
}

}  // namespace shm
}  // namespace npu_bridge
