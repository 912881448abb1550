// The blocks of the data segment: who holds which, and which are free.
//
// Holding is counted twice. In shared memory each block has a bit for every rank of the host and
// one for an operation in flight; in this process a count says how many result tensors lie in the
// block, and its last one clears the rank's bit. A pool lives as long as an endpoint or a result
// refers to it: results outlive close() and the interpreter.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_POOL_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/common/status.h"
#include "csrc/transport/shm/shared_memory.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace shm {

class Pool {
 public:
  Pool(std::unique_ptr<SharedMemory> memory, std::int32_t host_rank,
       std::uint64_t idle_buffer_bytes, std::uint64_t limit_bytes);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  SharedMemory& memory() { return *memory_; }
  std::int32_t host_rank() const { return host_rank_; }

  // A block of at least `bytes`, held by kOperationBit.
  Status Allocate(std::uint64_t bytes, std::uint32_t* block);
  // Why an allocation of `bytes` failed on a rank that could not say it itself.
  Status OutOfMemory(std::uint64_t bytes) const;

  // Whether [offset, offset + bytes) lies in the block; false for numbers that name no block.
  bool Contains(std::uint32_t block, std::uint64_t offset, std::uint64_t bytes);
  // The block's memory; nullptr for numbers that name no block.
  char* Data(std::uint32_t block);
  char* View(std::uint32_t block);

  // To be called before this rank first writes a range of a block.
  Status PrepareWrite(std::uint32_t block, std::uint64_t offset, std::uint64_t bytes);

  // While the operation still holds the block: `tensors` results of `bytes` in all lie there.
  Status HoldResults(std::uint32_t block, std::uint32_t tensors, std::uint64_t bytes);
  void ReleaseResult(std::uint32_t block);

  // Clears a bit; the last one frees the block.
  void Drop(std::uint32_t block, std::uint64_t holder);
  // Clears the rank's bit on all blocks.
  void DropRank(std::int32_t host_rank);

  // Gives memory back that has been free for 10 s, down to the idle buffer's size.
  void TrimIdle();

  std::string Describe();

 private:
  // What this process knows of a block. Atomic, since threads meet here whose only order comes from
  // the shared records.
  struct LocalBlock {
    std::atomic<std::uint32_t> results{0};
    std::atomic<std::uint32_t> view_open{0};
    std::atomic<std::uint64_t> result_bytes{0};
    std::atomic<std::uint64_t> populated_begin{0};
    std::atomic<std::uint64_t> populated_end{0};
    std::atomic<std::uint32_t> populated_trims{0};  // BlockRecord::trims of that time
  };

  bool IsBlock(std::uint32_t block);
  bool Pop(std::uint32_t size_class, bool warm, std::uint32_t* block);
  void Push(std::uint32_t block);
  Status Carve(std::uint32_t size_class, std::uint32_t* block);
  Status Grow(std::uint32_t block, std::uint64_t bytes);
  bool Reserve(std::uint64_t bytes);
  // Of the free memory, gives back what was freed `age_ms` ago or earlier, but keeps `keep_bytes`.
  void Trim(std::uint64_t age_ms, std::uint64_t keep_bytes);
  std::uint64_t BytesInUse();

  const std::unique_ptr<SharedMemory> memory_;
  const std::int32_t host_rank_;
  const std::uint64_t idle_buffer_bytes_;
  const std::uint64_t limit_bytes_;  // 0: none
  const std::unique_ptr<LocalBlock[]> local_;
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_POOL_H_
