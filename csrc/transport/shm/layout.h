// What lies in the shared control segment, and where.
//
// All of it is valid when zero, so nobody has to initialise it. Every field is atomic: ranks share
// nothing else, and a rank may die between any two instructions. What is read here and sizes an
// access is checked by the reader.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_LAYOUT_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "csrc/common/processor.h"
#include "csrc/transport/shm/size_class.h"

namespace npu_bridge {
namespace shm {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "locks cannot be shared");

constexpr std::size_t kCacheLine = 64;

// Ranks are bits of a 64-bit word; two bits are taken.
constexpr std::int32_t kMaxHostRanks = 62;
constexpr std::uint64_t kSelfSendBit = std::uint64_t{1} << 62;   // sender to itself
constexpr std::uint64_t kOperationBit = std::uint64_t{1} << 63;  // an operation in flight
constexpr std::uint64_t kAbandonedBit = std::uint64_t{1} << 63;  // of OperationHeader::joined

constexpr std::uint32_t kMaxBlocks = 1u << 16;
constexpr std::uint32_t kNoBlock = 0;  // blocks are numbered from 1

constexpr std::uint64_t RankBit(std::int32_t host_rank) { return std::uint64_t{1} << host_rank; }

struct alignas(kCacheLine) Header {
  // Set by the first rank, compared by the others: a wrong one would misplace everything below.
  std::atomic<std::uint64_t> signature;

  alignas(kCacheLine) std::atomic<std::uint64_t> carved_bytes;  // of the data segment
  std::atomic<std::uint32_t> block_count;
  alignas(kCacheLine) std::atomic<std::uint64_t> resident_bytes;  // touched and not given back
  std::atomic<std::uint64_t> trimmed_bytes;                       // given back so far
};

struct alignas(kCacheLine) RankRecord {
  // Wakes the rank's worker.
  std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> sleeping;

  alignas(kCacheLine) std::atomic<std::int32_t> process_id;
  std::atomic<std::uint64_t> process_namespace;
  std::atomic<std::uint32_t> gone;  // its references are to be dropped once its process is no more
  std::atomic<std::uint64_t> processors[kProcessorMaskWords];
};

// A free block lies on one of its class's two stacks.
struct alignas(kCacheLine) FreeStack {
  // Low half: the top block; high half: counts pushes and pops, so that a pop that was overtaken
  // fails instead of restoring an old link.
  std::atomic<std::uint64_t> top;
};

struct alignas(kCacheLine) BlockRecord {
  // A bit for each rank whose process holds the block's memory, and kOperationBit. Whoever clears
  // the last one puts the block on a stack.
  std::atomic<std::uint64_t> holders;
  std::atomic<std::uint64_t> offset;  // in the data segment; constant once carved
  std::atomic<std::uint64_t> resident_bytes;
  std::atomic<std::uint64_t> freed_at_ms;  // CLOCK_MONOTONIC
  std::atomic<std::uint32_t> size_class;   // constant once carved
  std::atomic<std::uint32_t> next;         // on a stack
  std::atomic<std::uint32_t> trims;        // how often its memory was given back
};

// One collective in flight, at the place that its match_slot names.
struct alignas(kCacheLine) OperationHeader {
  // match_id of the operation that the record was claimed for, was set up for, and was closed for.
  std::atomic<std::uint64_t> claimed;
  std::atomic<std::uint64_t> ready;
  std::atomic<std::uint64_t> closed;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> work_block;
  std::atomic<std::uint32_t> result_block;
  std::atomic<std::uint32_t> failure;  // of the set-up: a SetUpFailure
  std::atomic<std::uint64_t> failed_bytes;

  // Own line: every member writes here.
  alignas(kCacheLine) std::atomic<std::uint64_t> joined;  // ranks, and kAbandonedBit
  std::atomic<std::uint64_t> present;  // ranks that may still touch the operation's blocks
};

// A member of the operation; only that member writes here.
struct alignas(kCacheLine) MemberCell {
  std::atomic<std::uint64_t> state;  // a MemberState
};

// One word, so that nothing of an earlier operation in the slot is ever taken for this one's: a
// cell of another generation counts as phase 0, and nobody has to clear cells.
struct MemberState {
  std::uint32_t generation = 0;  // of the record
  std::uint32_t block = 0;       // all-to-all: where the member receives
  std::uint32_t phase = 0;       // how far the member is

  MemberState() = default;
  MemberState(std::uint32_t generation_in, std::uint32_t block_in, std::uint32_t phase_in)
      : generation(generation_in), block(block_in), phase(phase_in) {}
  explicit MemberState(std::uint64_t word)
      : generation(static_cast<std::uint32_t>(word >> 32)),
        block(static_cast<std::uint32_t>(word >> 8) & 0xffffffu),
        phase(static_cast<std::uint32_t>(word) & 0xffu) {}
  std::uint64_t Word() const {
    return (std::uint64_t{generation} << 32) | (std::uint64_t{block} << 8) | phase;
  }
};
static_assert(kMaxBlocks < (1u << 24), "a block's number fits its part of the word");

// Offsets of the parts, for a host of `host_size` ranks.
struct Layout {
  std::int32_t host_size = 0;
  std::uint32_t slot_count = 0;
  std::uint64_t ranks = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t stacks = 0;
  std::uint64_t blocks = 0;
  std::uint64_t operations = 0;
  std::uint64_t operation_stride = 0;
  std::uint64_t in_flight_words = 0;  // of one rank's bitmap of slots
  std::uint64_t bytes = 0;

  Layout() = default;
  Layout(std::int32_t host_size, std::uint32_t slot_count);
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_LAYOUT_H_
