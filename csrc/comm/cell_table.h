// The mapped table: its cells, where they lie and who hands them out. What they mean is matching's.
#ifndef NPU_BRIDGE_CSRC_COMM_CELL_TABLE_H_
#define NPU_BRIDGE_CSRC_COMM_CELL_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/doorbell.h"
#include "csrc/comm/shared_heap.h"
#include "csrc/comm/shared_mapping.h"
#include "csrc/comm/table_layout.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace comm {

class CellTable {
 public:
  // Maps the table that the ranks of the host share; the first to come makes it. Blocks until it
  // is made.
  static Status Open(control::HostChannel* channel, std::unique_ptr<CellTable>* table);
  // Waits until every rank of the host has opened all that the ranks share: a rank that refuses its
  // first op and ends must not take away what a slower rank has yet to open.
  Status AwaitOthers(const control::HostChannel& channel, const std::atomic<bool>& interrupted);
  ~CellTable() = default;
  CellTable(const CellTable&) = delete;
  CellTable& operator=(const CellTable&) = delete;

  std::uint32_t host_size() const { return host_size_; }
  TableHeader* header() const { return header_; }
  Doorbell doorbell(std::uint32_t host_index) const;

  Cell* cell(std::uint32_t index) const;
  // Host index (place in the host's ranks) of each member, written by whoever makes the cell.
  std::uint32_t* host_indexes(std::uint32_t index) const;
  CellMember* member(std::uint32_t index, std::uint32_t member) const;
  char* failure_text(std::uint32_t index) const;

  // A cell for the caller alone, or kNoCell when all are in use.
  std::uint32_t TakeCell();
  // The cell is in no chain, and nobody uses it.
  void ReturnCell(std::uint32_t index);
  // Cells from this index on have never been used.
  std::uint32_t CellsEverUsed();
  std::uint32_t CellsInUse();

  Bucket* BucketOf(const CellKey& key) const;
  // Makes a chain sound again that a dying rank may have left half done. Under the bucket's mutex.
  void RepairChain(Bucket* bucket) const;

  // A member's bytes in a cell. Under the bucket's mutex, or while all members have arrived and
  // this rank has not departed. False: the heap is full.
  bool Store(std::uint32_t index, std::uint32_t member, const std::string& agreement,
             const std::string& own);
  // False: what stands there cannot be right.
  bool Load(std::uint32_t index, std::uint32_t member, std::string* agreement,
            std::string* own) const;
  // Whether the agreement equals that of the cell's first member.
  bool AgreesWithFirst(std::uint32_t index, const std::string& agreement) const;
  void Release(std::uint32_t index, std::uint32_t member);

  // When the group last moved; 0: never.
  std::int64_t LastMovement(std::uint64_t identity) const;
  void Moved(std::uint64_t identity, std::int64_t now);

  SharedHeap* heap() { return &heap_; }

 private:
  CellTable(std::shared_ptr<SharedMapping> mapping, std::uint32_t host_size);

  void Initialise();
  // nullptr when that many bytes cannot stand there.
  const char* BytesOf(const CellMember& member, std::size_t size) const;

  std::shared_ptr<SharedMapping> mapping_;
  char* base_;
  std::uint32_t host_size_;
  TableHeader* header_;
  SharedHeap heap_;
  RankArea* areas_;
  char* cells_;
  std::uint64_t cell_bytes_;
  std::uint64_t members_at_;
  char* failures_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CELL_TABLE_H_
