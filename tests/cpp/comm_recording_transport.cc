#include "tests/cpp/comm_recording_transport.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "csrc/common/status.h"
#include "csrc/transport/c_boundary.h"
#include "csrc/transport/registry.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace comm_test {
namespace {

const npu_transport_interface_v1* Below() {
  static const npu_transport_interface_v1* below = [] {
    const npu_transport_interface_v1* found = nullptr;
    FindTransport("loopback", &found);
    return found;
  }();
  return below;
}

constexpr std::chrono::minutes kLimit(1);

struct Endpoint {
  void* below = nullptr;
  std::int32_t rank = 0;
};

struct Group {
  void* below = nullptr;
  std::int32_t rank = 0;
};

struct Held {
  Group* group;
  npu_transport_request request;
};

struct Records {
  std::mutex mutex;
  std::map<std::int32_t, std::vector<std::uint64_t>> started;
  std::map<std::int32_t, int> cancelled;
  std::map<std::int32_t, std::vector<std::int32_t>> gone;
  bool holds = false;
  std::vector<Held> held;
  std::int32_t fail_rank = -1;
  std::string fail_text;
  std::int32_t refused = -1;
};

Records& All() {
  static auto* records = new Records;
  return *records;
}

void Open(const npu_transport_world* world, const npu_transport_services* services,
          void** transport, npu_transport_status* status) {
  auto* endpoint = new Endpoint;
  endpoint->rank = world->rank;
  Below()->open(world, services, &endpoint->below, status);
  *transport = endpoint;
}

void Close(void* transport) {
  auto* endpoint = static_cast<Endpoint*>(transport);
  Below()->close(endpoint->below);
  delete endpoint;
}

void CreateGroup(void* transport, const npu_transport_group* description, void** group,
                 npu_transport_status* status) {
  auto* made = new Group;
  made->rank = static_cast<Endpoint*>(transport)->rank;
  Below()->create_group(static_cast<Endpoint*>(transport)->below, description, &made->below,
                        status);
  *group = made;
}

void DestroyGroup(void* group) {
  Below()->destroy_group(static_cast<Group*>(group)->below);
  delete static_cast<Group*>(group);
}

std::int32_t Score(void* group, std::int32_t collective, std::int32_t type, std::int32_t reduction,
                   npu_transport_status* status) {
  {
    std::lock_guard<std::mutex> lock(All().mutex);
    if (All().refused == collective) {
      CopyStatus(Unimplemented("the test says no"), status);
      return 0;
    }
  }
  return Below()->score(static_cast<Group*>(group)->below, collective, type, reduction, status);
}

void Start(void* group, const npu_transport_request* request, void** operation,
           npu_transport_status* status) {
  auto* own = static_cast<Group*>(group);
  {
    std::lock_guard<std::mutex> lock(All().mutex);
    if (All().fail_rank == own->rank) {
      CopyStatus(ResourceExhausted(All().fail_text), status);
      return;
    }
    All().started[own->rank].push_back(request->match_id);
    if (All().holds) {
      All().held.push_back({own, *request});
      CopyStatus(Status::Ok(), status);
      return;
    }
  }
  Below()->start(own->below, request, operation, status);
}

void Cancel(void* group, std::uint64_t match_id, const npu_transport_status* reason) {
  auto* own = static_cast<Group*>(group);
  npu_transport_request request = {};
  bool held = false;
  {
    std::lock_guard<std::mutex> lock(All().mutex);
    ++All().cancelled[own->rank];
    auto& all = All().held;
    for (auto i = all.begin(); i != all.end() && !held; ++i) {
      if (i->group->rank != own->rank || i->request.match_id != match_id) continue;
      request = i->request;
      held = true;
      all.erase(i);
      break;
    }
  }
  if (held) {
    request.done(request.context, reason, nullptr);
  } else {
    Below()->cancel(own->below, match_id, reason);
  }
}

void RankGone(void* transport, std::int32_t rank) {
  std::lock_guard<std::mutex> lock(All().mutex);
  All().gone[static_cast<Endpoint*>(transport)->rank].push_back(rank);
}

std::size_t Describe(void* transport, char* text, std::size_t bytes) {
  return Below()->describe(static_cast<Endpoint*>(transport)->below, text, bytes);
}

constexpr npu_transport_interface_v1 Interface(const char* name, std::uint32_t flags) {
  return {NPU_TRANSPORT_INTERFACE_VERSION,
          sizeof(npu_transport_interface_v1),
          name,
          flags,
          Open,
          Close,
          CreateGroup,
          DestroyGroup,
          Score,
          Start,
          Cancel,
          RankGone,
          Describe};
}

constexpr npu_transport_interface_v1 kPlain = Interface("recording", 0);
constexpr npu_transport_interface_v1 kOrdered =
    Interface("recording_ordered", NPU_TRANSPORT_NEEDS_ONE_ORDER);

const bool registered =
    RegisterTransport("recording", [](std::uint32_t) { return &kPlain; }) &&
    RegisterTransport("recording_ordered", [](std::uint32_t) { return &kOrdered; });

}  // namespace

void Recording::Reset() {
  std::lock_guard<std::mutex> lock(All().mutex);
  All().started.clear();
  All().cancelled.clear();
  All().gone.clear();
  All().holds = false;
  All().held.clear();
  All().fail_rank = -1;
  All().refused = -1;
}

std::vector<std::uint64_t> Recording::Started(std::int32_t rank) {
  std::lock_guard<std::mutex> lock(All().mutex);
  return All().started[rank];
}

bool Recording::WaitForStarts(std::int32_t ranks) {
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    while (Started(rank).empty()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

int Recording::Cancelled(std::int32_t rank) {
  std::lock_guard<std::mutex> lock(All().mutex);
  return All().cancelled[rank];
}

bool Recording::WaitForGone(std::int32_t rank, std::int32_t gone) {
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (std::chrono::steady_clock::now() < limit) {
    {
      std::lock_guard<std::mutex> lock(All().mutex);
      const std::vector<std::int32_t>& told = All().gone[rank];
      if (std::find(told.begin(), told.end(), gone) != told.end()) return true;
    }
    std::this_thread::yield();
  }
  return false;
}

void Recording::Hold() {
  std::lock_guard<std::mutex> lock(All().mutex);
  All().holds = true;
}

void Recording::Release() {
  std::vector<Held> held;
  {
    std::lock_guard<std::mutex> lock(All().mutex);
    All().holds = false;
    held.swap(All().held);
  }
  for (const Held& one : held) {
    npu_transport_status status = {};
    void* operation = nullptr;
    Below()->start(one.group->below, &one.request, &operation, &status);
  }
}

void Recording::FailStart(std::int32_t rank, const std::string& text) {
  std::lock_guard<std::mutex> lock(All().mutex);
  All().fail_rank = rank;
  All().fail_text = text;
}

void Recording::Refuse(std::int32_t collective) {
  std::lock_guard<std::mutex> lock(All().mutex);
  All().refused = collective;
}

}  // namespace comm_test
}  // namespace npu_bridge
