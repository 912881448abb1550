#include "csrc/comm/control/control_block.h"

#include <pthread.h>

#include <cerrno>
#include <new>
#include <utility>

#include "csrc/comm/control/memory_file.h"
#include "csrc/comm/control/process_identity.h"

namespace npu_bridge {
namespace control {

struct alignas(64) ControlBlock::Cell {
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> joined;  // the lock has its holder
  pthread_mutex_t liveness;
};

struct alignas(64) ControlBlock::Layout {
  std::atomic<std::uint32_t> size;
  std::atomic<std::uint32_t> phase;
};

namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

std::size_t BytesFor(std::int32_t size, std::size_t head, std::size_t cell) {
  return head + static_cast<std::size_t>(size) * cell;
}

}  // namespace

ControlBlock::ControlBlock(std::unique_ptr<SharedMapping> mapping, std::int32_t size)
    : mapping_(std::move(mapping)), size_(size) {}

ControlBlock::Layout* ControlBlock::layout() const {
  return static_cast<Layout*>(mapping_->data());
}

ControlBlock::Cell& ControlBlock::cell(std::int32_t rank) const {
  return reinterpret_cast<Cell*>(layout() + 1)[rank];
}

Status ControlBlock::Create(std::int32_t size, OwnedDescriptor* file,
                            std::unique_ptr<ControlBlock>* block) {
  const std::size_t bytes = BytesFor(size, sizeof(Layout), sizeof(Cell));
  Status status = MakeMemoryFile(kControlMemoryName, bytes, file);
  std::unique_ptr<SharedMapping> mapping;
  if (status.ok()) status = SharedMapping::Map(file->get(), bytes, &mapping);
  if (!status.ok()) return status;
  block->reset(new ControlBlock(std::move(mapping), size));

  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  Layout* layout = new ((*block)->layout()) Layout;
  layout->phase.store(static_cast<std::uint32_t>(WorldPhase::kForming));
  for (std::int32_t rank = 0; rank < size; ++rank) {
    Cell* cell = new (&(*block)->cell(rank)) Cell;
    cell->state.store(static_cast<std::uint32_t>(RankState::kAlive));
    cell->joined.store(0);
    pthread_mutex_init(&cell->liveness, &attributes);
  }
  pthread_mutexattr_destroy(&attributes);
  layout->size.store(static_cast<std::uint32_t>(size));
  return Status::Ok();
}

Status ControlBlock::Attach(const OwnedDescriptor& file, std::int32_t size,
                            std::unique_ptr<ControlBlock>* block) {
  const std::size_t bytes = BytesFor(size, sizeof(Layout), sizeof(Cell));
  Status status = CheckMemoryFile(kControlMemoryName, bytes, file.get());
  std::unique_ptr<SharedMapping> mapping;
  if (status.ok()) status = SharedMapping::Map(file.get(), bytes, &mapping);
  if (!status.ok()) return status;
  std::unique_ptr<ControlBlock> attached(new ControlBlock(std::move(mapping), size));
  if (attached->layout()->size.load() != static_cast<std::uint32_t>(size)) {
    return Internal("the control memory that another process passed is not one of this world");
  }
  *block = std::move(attached);
  return Status::Ok();
}

WorldPhase ControlBlock::phase() const {
  return static_cast<WorldPhase>(layout()->phase.load(std::memory_order_acquire));
}

WorldPhase ControlBlock::Decide(WorldPhase phase) {
  auto expected = static_cast<std::uint32_t>(WorldPhase::kForming);
  const bool decided =
      layout()->phase.compare_exchange_strong(expected, static_cast<std::uint32_t>(phase));
  return decided ? phase : static_cast<WorldPhase>(expected);
}

RankState ControlBlock::state(std::int32_t rank) const {
  return static_cast<RankState>(cell(rank).state.load(std::memory_order_acquire));
}

RankState ControlBlock::Mark(std::int32_t rank, RankState state) {
  auto expected = static_cast<std::uint32_t>(RankState::kAlive);
  const bool marked =
      cell(rank).state.compare_exchange_strong(expected, static_cast<std::uint32_t>(state));
  return marked ? state : static_cast<RankState>(expected);
}

Status ControlBlock::HoldLiveness(std::int32_t rank) {
  // Free: others try it after `joined` only. Hence no waiting here.
  const int error = pthread_mutex_trylock(&cell(rank).liveness);
  if (error != 0) return Internal(WithErrno("cannot take the liveness lock of a rank", error));
  cell(rank).joined.store(1, std::memory_order_release);
  return Status::Ok();
}

void ControlBlock::DropLiveness(std::int32_t rank) {
  cell(rank).joined.store(0, std::memory_order_release);
  pthread_mutex_unlock(&cell(rank).liveness);
}

bool ControlBlock::HolderIsGone(std::int32_t rank) {
  Cell& tried = cell(rank);
  if (tried.joined.load(std::memory_order_acquire) == 0) return false;
  const int result = pthread_mutex_trylock(&tried.liveness);
  if (result == EBUSY) return false;
  // Not made consistent: the unlock leaves it unusable, which tells the ranks that try it later.
  if (result == 0 || result == EOWNERDEAD) pthread_mutex_unlock(&tried.liveness);
  return result == EOWNERDEAD || result == ENOTRECOVERABLE;
}

}  // namespace control
}  // namespace npu_bridge
