#include "csrc/comm/shared_heap.h"

#include <sys/mman.h>

#include <cstring>

namespace npu_bridge {
namespace comm {
namespace {

constexpr std::uint64_t kSmallestBlock = 512;
constexpr std::uint64_t kPage = 4096;
// From here on a free block's pages are worth a system call.
constexpr std::uint64_t kLargeBlock = 256 * 1024;

// kHeapClasses when no class is large enough.
int ClassOf(std::size_t bytes) {
  int index = 0;
  while (index < kHeapClasses && (kSmallestBlock << index) < bytes) ++index;
  return index;
}

}  // namespace

void SharedHeap::Initialise() {
  lists_->mutex.Initialise();
  lists_->unused_from = kPage;
  lists_->in_use = 0;
  std::memset(lists_->heads, 0, sizeof(lists_->heads));
}

// A rank that dies inside loses at most the block at hand: each list is changed by one store.
std::uint64_t SharedHeap::Allocate(std::size_t bytes) {
  const int index = ClassOf(bytes);
  if (index == kHeapClasses) return 0;
  const std::uint64_t size = kSmallestBlock << index;
  RobustLock lock(&lists_->mutex);
  std::uint64_t block = lists_->heads[index];
  const char* address = block == 0 ? nullptr : Address(block, size);
  if (address != nullptr) {
    std::memcpy(&lists_->heads[index], address, sizeof(std::uint64_t));
  } else {
    block = lists_->unused_from;
    if (block + size > kHeapBytes) return 0;
    lists_->unused_from = block + size;
  }
  lists_->in_use += size;
  return block;
}

void SharedHeap::Free(std::uint64_t block, std::size_t bytes) {
  const int index = ClassOf(bytes);
  if (index == kHeapClasses) return;
  const std::uint64_t size = kSmallestBlock << index;
  char* address = Address(block, size);
  if (address == nullptr) return;
  if (size >= kLargeBlock) {
    // The first page stays: it holds the link.
    char* from = address + kPage;
    const std::uint64_t misplaced = reinterpret_cast<std::uintptr_t>(from) % kPage;
    if (misplaced != 0) from += kPage - misplaced;
    const auto length = static_cast<std::uint64_t>(address + size - from) / kPage * kPage;
    madvise(from, length, MADV_REMOVE);
  }
  RobustLock lock(&lists_->mutex);
  std::memcpy(address, &lists_->heads[index], sizeof(std::uint64_t));
  lists_->heads[index] = block;
  lists_->in_use -= size;
}

char* SharedHeap::Address(std::uint64_t block, std::size_t bytes) const {
  if (block < kPage || block > kHeapBytes || bytes > kHeapBytes - block) return nullptr;
  return base_ + block;
}

std::uint64_t SharedHeap::BytesInUse() {
  RobustLock lock(&lists_->mutex);
  return lists_->in_use;
}

}  // namespace comm
}  // namespace npu_bridge
