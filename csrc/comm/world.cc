#include "csrc/comm/world.h"

#include <mutex>
#include <utility>

#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/control/process_events.h"
#include "csrc/comm/world_implementation.h"

namespace npu_bridge {
namespace {

Status MeetOnThisHost(const ClusterDescription& cluster, const Settings& settings,
                      const std::atomic<bool>& interrupted,
                      std::shared_ptr<control::HostChannel>* channel) {
  std::unique_ptr<control::HostChannel> met;
  Status status = control::MeetOnHost(cluster, settings, interrupted, &met);
  if (status.ok()) *channel = std::move(met);
  return status;
}

// A forked child has none of its parent's threads, and may have inherited locked mutexes: nothing
// of the world is touched there.
Status ForkedChild() { return FailedPrecondition(control::kForkedChildMessage); }

struct ProcessProvider {
  std::mutex mutex;
  ConfigurationProvider provider;
};

ProcessProvider& TheProcessProvider() {
  static auto* provider = new ProcessProvider;
  return *provider;
}

}  // namespace

World::World(ConfigurationProvider provider)
    : implementation_(new Implementation(std::move(provider), MeetOnThisHost, false)) {}

World::World(ConfigurationProvider provider, Meeting meeting)
    : implementation_(new Implementation(std::move(provider), std::move(meeting), true)) {}

World::~World() {
  // Its mutexes and threads are the parent's.
  if (!control::IsForkedChild()) return;
  [[maybe_unused]] Implementation* const kept = implementation_.release();
}

Status World::Start() {
  return control::IsForkedChild() ? ForkedChild() : implementation_->Start();
}

void World::Shutdown() {
  if (!control::IsForkedChild()) implementation_->Shutdown();
}

bool World::started() const { return !control::IsForkedChild() && implementation_->started(); }

std::uint64_t World::generation() const { return implementation_->generation(); }

Status World::RankAndSize(std::int32_t* rank, std::int32_t* size) {
  return control::IsForkedChild() ? ForkedChild() : implementation_->RankAndSize(rank, size);
}

Status World::HostRanks(std::vector<std::int32_t>* ranks) {
  if (control::IsForkedChild()) return ForkedChild();
  control::HostMembership membership;
  Status status = implementation_->Membership(&membership);
  if (status.ok()) *ranks = membership.host_ranks;
  return status;
}

Status World::CreateGroup(const std::string& name, const std::vector<std::int32_t>& ranks) {
  if (control::IsForkedChild()) return ForkedChild();
  Status status = implementation_->EnsureConfigured();
  return status.ok() ? implementation_->groups().Create(name, ranks) : status;
}

Status World::DestroyGroup(const std::string& name) {
  if (control::IsForkedChild()) return ForkedChild();
  Status status = implementation_->EnsureConfigured();
  std::shared_ptr<const comm::Group> destroyed;
  if (status.ok()) status = implementation_->groups().Destroy(name, &destroyed);
  if (status.ok()) implementation_->Forget(destroyed);
  return status;
}

Status World::GroupRanks(const std::string& name, std::vector<std::int32_t>* ranks) {
  if (control::IsForkedChild()) return ForkedChild();
  Status status = implementation_->EnsureConfigured();
  std::shared_ptr<const comm::Group> group;
  if (status.ok()) status = implementation_->groups().Find(name, &group);
  if (status.ok()) *ranks = group->ranks;
  return status;
}

std::vector<std::string> World::GroupNames() {
  if (control::IsForkedChild() || !implementation_->EnsureConfigured().ok()) return {};
  return implementation_->groups().Names();
}

RequestId World::Submit(std::shared_ptr<CollectiveRequest> request, CollectiveCallback done) {
  if (control::IsForkedChild()) {
    done(ForkedChild(), {});
    return 0;
  }
  return implementation_->Submit(std::move(request), std::move(done));
}

void World::Cancel(RequestId id, const std::string& reason) {
  // 0 is no request: to the implementation it would mean all.
  if (!control::IsForkedChild() && id != 0) implementation_->Cancel(id, reason);
}

void World::CancelAll(const std::string& reason) {
  if (!control::IsForkedChild()) implementation_->Cancel(0, reason);
}

std::string World::Describe() {
  return control::IsForkedChild() ? "forked_child=1\n" : implementation_->Describe();
}

// Never destroyed: requests may end, and memory be released, while static destructors run. Python's
// exit handler shuts it down.
World& ProcessWorld() {
  static auto* world = new World([](ClusterDescription* cluster, Settings* settings) {
    ConfigurationProvider provider;
    {
      std::lock_guard<std::mutex> lock(TheProcessProvider().mutex);
      provider = TheProcessProvider().provider;
    }
    if (!provider) {
      return FailedPrecondition(
          "A collective ran before npu_bridge or npu_device was imported: import one of them, "
          "which reads the job's description.");
    }
    return provider(cluster, settings);
  });
  return *world;
}

void SetProcessConfigurationProvider(ConfigurationProvider provider) {
  std::lock_guard<std::mutex> lock(TheProcessProvider().mutex);
  TheProcessProvider().provider = std::move(provider);
}

}  // namespace npu_bridge
