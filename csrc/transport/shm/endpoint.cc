#include "csrc/transport/shm/endpoint.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace npu_bridge {
namespace shm {
namespace {

// Values of RankRecord::gone.
enum Gone : std::uint32_t { kHere = 0, kGone = 1, kDropped = 2 };

std::uint64_t ProcessNamespace() {
  struct stat file;
  return stat("/proc/self/ns/pid", &file) == 0 ? static_cast<std::uint64_t>(file.st_ino) : 0;
}

// A process that has ended but whose parent has not asked for its code yet.
bool IsZombie(std::int32_t process_id) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", process_id);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return false;
  char line[512] = {};
  const std::size_t length = std::fread(line, 1, sizeof(line) - 1, file);
  std::fclose(file);
  line[length] = '\0';
  // The name in parentheses may hold anything, so the state is what follows the last one.
  const char* end = std::strrchr(line, ')');
  return end != nullptr && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

}  // namespace

Status Endpoint::Open(const npu_transport_world& world, const npu_transport_services& services,
                      std::unique_ptr<Endpoint>* endpoint) {
  if (world.host_size > kMaxHostRanks) {
    return Unimplemented("the transport 'shm' serves at most " + std::to_string(kMaxHostRanks) +
                         " ranks on one host, this job has " + std::to_string(world.host_size) +
                         " here.");
  }
  std::unique_ptr<SharedMemory> memory;
  Status status = SharedMemory::Open(world, services, &memory);
  if (!status.ok()) return status;
  auto pool = std::make_shared<Pool>(std::move(memory), world.host_rank, world.idle_buffer_bytes,
                                     world.memory_limit_bytes);
  std::unique_ptr<Endpoint> opened(new Endpoint(world, std::move(pool)));
  status = opened->engine_.Open();
  if (status.ok()) *endpoint = std::move(opened);
  return status;
}

Endpoint::Endpoint(const npu_transport_world& world, std::shared_ptr<Pool> pool)
    : host_ranks_(world.host_ranks, world.host_ranks + world.host_size),
      host_rank_(world.host_rank),
      pool_(std::move(pool)),
      table_(pool_.get()),
      engine_(
          &pool_->memory().rank(host_rank_), [this] { return MaySpin(); },
          [this] {
            DropGoneRanks();
            pool_->TrimIdle();
          }) {
  RankRecord& own = pool_->memory().rank(host_rank_);
  std::uint64_t mask[kProcessorMaskWords];
  ProcessorMask(mask);
  for (int i = 0; i < kProcessorMaskWords; ++i) own.processors[i].store(mask[i]);
  own.process_namespace.store(ProcessNamespace());
  own.process_id.store(static_cast<std::int32_t>(getpid()));
}

bool Endpoint::MaySpin() {
  int known = may_spin_.load(std::memory_order_relaxed);
  if (known >= 0) return known != 0;
  // Processors that any rank may use: each of several pinned ranks has one of its own.
  int processors = 0;
  for (int word = 0; word < kProcessorMaskWords; ++word) {
    std::uint64_t mask = 0;
    for (std::size_t rank = 0; rank < host_ranks_.size(); ++rank) {
      mask |= pool_->memory().rank(static_cast<std::int32_t>(rank)).processors[word].load();
    }
    processors += __builtin_popcountll(mask);
  }
  known = processors >= static_cast<int>(host_ranks_.size()) ? 1 : 0;
  // Ranks that have not opened yet are not counted: only a full count is kept.
  for (std::size_t rank = 0; rank < host_ranks_.size(); ++rank) {
    if (pool_->memory().rank(static_cast<std::int32_t>(rank)).process_id.load() == 0) {
      return known != 0;
    }
  }
  may_spin_.store(known, std::memory_order_relaxed);
  return known != 0;
}

std::int32_t Endpoint::HostRank(std::int32_t world_rank) const {
  const auto found = std::find(host_ranks_.begin(), host_ranks_.end(), world_rank);
  return found == host_ranks_.end() ? -1 : static_cast<std::int32_t>(found - host_ranks_.begin());
}

Status Endpoint::MakeGroup(const npu_transport_group& description,
                           std::unique_ptr<GroupContext>* group) {
  auto made = std::make_unique<GroupContext>();
  made->pool = pool_;
  made->table = &table_;
  made->name = description.name;
  made->rank = description.rank;
  for (std::int32_t i = 0; i < description.size; ++i) {
    const std::int32_t host_rank = HostRank(description.ranks[i]);
    if (host_rank < 0) {
      return Unimplemented("the transport 'shm' serves groups on one host; rank " +
                           std::to_string(description.ranks[i]) + " of group " + description.name +
                           " is on another.");
    }
    made->host_ranks.push_back(host_rank);
  }
  *group = std::move(made);
  return Status::Ok();
}

Status Endpoint::Start(const GroupContext& group, const npu_transport_request& request) {
  Status status;
  std::unique_ptr<Operation> operation = MakeOperation(group, request, &status);
  if (operation != nullptr) engine_.Start(std::move(operation));
  return status;
}

void Endpoint::RankGone(std::int32_t world_rank) {
  const std::int32_t host_rank = HostRank(world_rank);
  if (host_rank < 0 || host_rank == host_rank_) return;
  std::uint32_t expected = kHere;
  pool_->memory().rank(host_rank).gone.compare_exchange_strong(expected, kGone);
  DropGoneRanks();
}

bool Endpoint::ProcessIsGone(std::int32_t host_rank) {
  const RankRecord& rank = pool_->memory().rank(host_rank);
  const std::int32_t process_id = rank.process_id.load();
  if (process_id <= 0) return true;  // it never got as far as holding anything
  if (rank.process_namespace.load() != ProcessNamespace()) return false;
  if (kill(process_id, 0) != 0 && errno == ESRCH) return true;
  return IsZombie(process_id);
}

void Endpoint::DropGoneRanks() {
  for (std::size_t i = 0; i < host_ranks_.size(); ++i) {
    const auto host_rank = static_cast<std::int32_t>(i);
    std::atomic<std::uint32_t>& gone = pool_->memory().rank(host_rank).gone;
    if (gone.load() != kGone || !ProcessIsGone(host_rank)) continue;
    table_.ExpectNoMore(host_rank);
    pool_->DropRank(host_rank);
    gone.store(kDropped);
  }
}

std::string Endpoint::Describe() {
  return "operations_in_flight=" + std::to_string(engine_.in_flight()) +
         "\noperations_completed=" + std::to_string(engine_.completed()) +
         "\noperations_completed_inline=" + std::to_string(engine_.completed_inline()) + "\n" +
         pool_->Describe();
}

}  // namespace shm
}  // namespace npu_bridge
