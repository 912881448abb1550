// Variable-sized blocks inside the matching table, for descriptors that do not fit their cell.
#ifndef NPU_BRIDGE_CSRC_COMM_SHARED_HEAP_H_
#define NPU_BRIDGE_CSRC_COMM_SHARED_HEAP_H_

#include <cstddef>
#include <cstdint>

#include "csrc/comm/table_layout.h"

namespace npu_bridge {
namespace comm {

// Blocks of size classes that double. A freed block serves the next request of its class; large
// ones give their pages back.
class SharedHeap {
 public:
  SharedHeap(HeapLists* lists, char* base) : lists_(lists), base_(base) {}

  // Once, by the rank that makes the table.
  void Initialise();

  // The block's offset, never 0; 0 when the heap is full.
  std::uint64_t Allocate(std::size_t bytes);
  // `bytes` as given to Allocate.
  void Free(std::uint64_t block, std::size_t bytes);

  // nullptr when `bytes` bytes at `block` are not inside the heap.
  char* Address(std::uint64_t block, std::size_t bytes) const;

  std::uint64_t BytesInUse();

 private:
  HeapLists* lists_;
  char* base_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_SHARED_HEAP_H_
