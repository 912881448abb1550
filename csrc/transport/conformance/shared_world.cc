#include "csrc/transport/conformance/shared_world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "csrc/common/futex.h"
#include "csrc/transport/c_boundary.h"

namespace npu_bridge {
namespace conformance {

SharedWorld::SharedWorld(int size) {
  void* memory =
      mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory for a test");
  state_ = new (memory) State();
  for (int rank = 0; rank < size; ++rank) state_->alive[rank].store(1);
  state_->alive_count.store(static_cast<std::uint32_t>(size));
  for (int& file : files_) {
    file = memfd_create("npu_bridge_test", MFD_CLOEXEC);
    if (file < 0) throw std::runtime_error("no memory file for a test");
  }
}

SharedWorld::~SharedWorld() {
  for (const int file : files_) close(file);
  munmap(state_, sizeof(State));
}

npu_transport_services SharedWorld::Services() {
  npu_transport_services services = {};
  services.struct_size = sizeof(services);
  services.context = this;
  services.share_segment = ShareSegment;
  services.rank_is_alive = RankIsAlive;
  services.log = Log;
  return services;
}

int SharedWorld::ShareSegment(void* context, const char* name, std::uint64_t bytes,
                              npu_transport_status* status) {
  SharedWorld* self = static_cast<SharedWorld*>(context);
  State* state = self->state_;
  std::uint32_t unlocked = 0;
  while (!state->lock.compare_exchange_weak(unlocked, 1)) unlocked = 0;
  int found = -1;
  int error = ENFILE;
  for (int i = 0; i < kMaxFiles && found < 0; ++i) {
    const bool is_free = state->names[i][0] == '\0';
    if (!is_free && std::strcmp(state->names[i], name) != 0) continue;
    if (is_free) {
      std::snprintf(state->names[i], sizeof(state->names[i]), "%s", name);
      if (ftruncate(self->files_[i], static_cast<off_t>(bytes)) != 0) error = errno;
    }
    struct stat file;
    if (fstat(self->files_[i], &file) != 0 || static_cast<std::uint64_t>(file.st_size) < bytes) {
      break;
    }
    found = fcntl(self->files_[i], F_DUPFD_CLOEXEC, 0);
    if (found < 0) error = errno;
  }
  state->lock.store(0);
  CopyStatus(found >= 0
                 ? Status::Ok()
                 : Internal(std::string("no memory file '") + name + "': " + std::strerror(error)),
             status);
  return found;
}

int SharedWorld::RankIsAlive(void* context, std::int32_t rank) {
  return static_cast<SharedWorld*>(context)->IsAlive(rank) ? 1 : 0;
}

void SharedWorld::Log(void*, std::int32_t, const char* text) { std::fprintf(stderr, "%s\n", text); }

bool SharedWorld::IsAlive(int rank) const { return state_->alive[rank].load() != 0; }

void SharedWorld::Barrier() {
  const std::uint32_t round = state_->barrier_round.load();
  if (state_->arrived.fetch_add(1) + 1 >= state_->alive_count.load()) {
    state_->arrived.store(0);
    state_->barrier_round.fetch_add(1);
    FutexWake(state_->barrier_round, kMaxRanks);
    return;
  }
  while (state_->barrier_round.load() == round) FutexWait(state_->barrier_round, round, -1);
}

void SharedWorld::MarkDead(int rank) {
  if (state_->alive[rank].exchange(0) == 0) return;
  state_->alive_count.fetch_sub(1);
  state_->deaths.fetch_add(1);
  FutexWake(state_->deaths, kMaxRanks);
  // The others may have been waiting for this one only.
  if (state_->arrived.load() > 0 && state_->arrived.load() >= state_->alive_count.load()) {
    state_->arrived.store(0);
    state_->barrier_round.fetch_add(1);
    FutexWake(state_->barrier_round, kMaxRanks);
  }
}

void SharedWorld::WaitUntilDead(int rank) {
  while (IsAlive(rank)) {
    const std::uint32_t deaths = state_->deaths.load();
    if (IsAlive(rank)) FutexWait(state_->deaths, deaths, -1);
  }
}

}  // namespace conformance
}  // namespace npu_bridge
