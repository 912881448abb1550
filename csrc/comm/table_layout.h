// The matching table as it lies in shared memory. Every number here may come from another process:
// indexes are checked before use.
//
// The file is sparse: only what was ever touched takes memory, and freed cells and blocks are used
// again before new ones, so that it grows with what is in flight, never with steps.
#ifndef NPU_BRIDGE_CSRC_COMM_TABLE_LAYOUT_H_
#define NPU_BRIDGE_CSRC_COMM_TABLE_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "csrc/comm/robust_mutex.h"

namespace npu_bridge {
namespace comm {

constexpr std::uint32_t kCellCount = 65536;
constexpr std::uint32_t kBucketCount = 4096;
constexpr std::uint32_t kNoCell = 0xffffffffu;
constexpr std::uint32_t kNobody = 0xffffffffu;
// When a group last moved, by identity. Groups may share an entry: that only puts off the mismatch
// error, and needs no lifetime.
constexpr std::uint32_t kMovementSlots = 16384;
// Failed cells that are kept for ranks that have not come to them yet.
constexpr std::uint32_t kMostAbandoned = 4096;
constexpr std::size_t kInlineBytes = 208;
constexpr std::size_t kFailureBytes = 4096;
constexpr std::uint64_t kHeapBytes = std::uint64_t{1} << 30;
constexpr int kHeapClasses = 22;  // blocks of 512 bytes to 1 GiB, doubling

enum class CellState : std::uint32_t {
  kFree = 0,
  kOpen = 1,     // some member has not arrived, or the last one compares the fingerprints
  kMatched = 2,  // all have arrived and agree
  kFailed = 3,   // the failure text stands
};

// What makes two requests the same collective, except for the step.
struct CellKey {
  std::uint64_t identity = 0;  // of the group
  std::uint64_t tag_low = 0;   // two independent hashes of the tag: 128 bits
  std::uint64_t tag_high = 0;
  std::uint64_t frame_id = 0;
  std::int64_t iteration = 0;
  std::uint32_t point_to_point = 0;
  std::uint32_t unused = 0;

  bool operator==(const CellKey& other) const {
    return identity == other.identity && tag_low == other.tag_low && tag_high == other.tag_high &&
           frame_id == other.frame_id && iteration == other.iteration &&
           point_to_point == other.point_to_point;
  }
};

// One collective in flight. All but the atomics belongs to the mutex of the key's bucket.
struct alignas(64) Cell {
  // Waiting ranks poll this line.
  std::atomic<std::uint32_t> state;
  std::uint32_t next;  // in the bucket's chain, or in the list of free cells
  std::atomic<std::uint64_t> match_id;
  std::atomic<std::uint64_t> order;   // for transports that need one order; 0: not announced
  std::atomic<std::uint32_t> warned;  // a stall warning has been printed
  std::uint32_t member_count;
  std::uint32_t arrived;
  std::uint32_t departed;
  std::uint32_t agreement_differs;  // some member's agreement bytes are not the first one's
  std::uint32_t first_member;       // the first that brought its agreement; kNobody: none has
  std::uint32_t abandoned;          // counted in TableHeader::abandoned
  std::int32_t failure_code;
  std::uint32_t failure_size;

  CellKey key;
  std::uint64_t step;
  std::int64_t failed_ns;
};

enum MemberFlags : std::uint32_t {
  kArrived = 1u << 0,
  kDeparted = 1u << 1,
};

// A member's engine looks at the cell only when it is told to.
enum class Waiting : std::uint32_t {
  kPolling = 0,  // a thread polls the cell's state
  kParked = 1,   // ring the rank's doorbell
};

// One rank's part of a cell: the group rank, or 0 and 1 for source and destination.
struct alignas(64) CellMember {
  std::uint32_t flags;
  std::atomic<std::uint32_t> waiting;
  std::int64_t arrived_ns;
  std::uint64_t heap_block;      // 0: the bytes are in inline_bytes
  std::uint32_t agreement_size;  // kSharedAgreement: equal to the first member's, not stored again
  std::uint32_t own_size;
  char inline_bytes[kInlineBytes];
};

constexpr std::uint32_t kSharedAgreement = 0xffffffffu;

struct alignas(64) Bucket {
  RobustMutex mutex;
  std::uint32_t head;  // kNoCell: empty
};

// How others reach a rank that sleeps: set the cell's bit, add one to the doorbell, wake.
struct alignas(128) RankArea {
  std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> sleeping;
  alignas(64) std::atomic<std::uint64_t> summary[kCellCount / 64 / 64];
  std::atomic<std::uint64_t> cells[kCellCount / 64];
};

struct HeapLists {
  RobustMutex mutex;
  std::uint64_t unused_from;  // no block has been cut beyond
  std::uint64_t in_use;       // bytes
  std::uint64_t heads[kHeapClasses];
};

struct alignas(4096) TableHeader {
  std::atomic<std::uint32_t> ready;  // 0: nobody, 1: being made, 2: made
  std::atomic<std::uint32_t> maker;  // place of the rank that makes it, plus one
  std::uint64_t layout;              // ranks with another layout must not join
  std::atomic<std::uint64_t> next_match_id;
  std::atomic<std::uint32_t> membership_changes;  // some rank has left
  std::atomic<std::uint32_t> opened;              // ranks that have opened all that is shared
  alignas(64) RobustMutex free_mutex;
  std::uint32_t free_head;
  std::uint32_t never_used;  // cells from here on have never been handed out
  std::uint32_t in_use;
  std::atomic<std::uint32_t> abandoned;    // failed, and all that came have gone
  alignas(64) RobustMutex detector_mutex;  // one rank at a time looks for a deadlock
  alignas(64) HeapLists heap;
  alignas(64) std::atomic<std::int64_t> movement[kMovementSlots];
  Bucket buckets[kBucketCount];
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_TABLE_LAYOUT_H_
