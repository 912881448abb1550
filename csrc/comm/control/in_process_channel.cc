// Worlds whose ranks are threads of this process: for tests, and for a job of one rank.
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/control/met_channel.h"
#include "csrc/comm/control/process_watcher.h"
#include "csrc/comm/control/segment_store.h"

namespace npu_bridge {
namespace control {
namespace {

class InProcessChannel;

struct InProcessWorld {
  explicit InProcessWorld(std::int32_t size)
      : states(static_cast<std::size_t>(size)), channels(static_cast<std::size_t>(size)) {}

  SegmentStore segments;
  std::vector<std::atomic<RankState>> states;
  std::mutex mutex;
  std::vector<InProcessChannel*> channels;  // guarded by mutex; null once destroyed
};

class InProcessChannel : public HostChannel {
 public:
  InProcessChannel(std::shared_ptr<InProcessWorld> world, std::int32_t rank)
      : world_(std::move(world)) {
    const auto size = static_cast<std::int32_t>(world_->states.size());
    membership_.rank = membership_.host_rank = rank;
    membership_.size = size;
    for (std::int32_t other = 0; other < size; ++other) membership_.host_ranks.push_back(other);
    membership_.process_ids.assign(world_->states.size(), ::getpid());
    world_->channels[static_cast<std::size_t>(rank)] = this;
  }

  ~InProcessChannel() override {
    Leave();
    {
      const std::lock_guard<std::mutex> lock(world_->mutex);
      world_->channels[static_cast<std::size_t>(membership_.rank)] = nullptr;
    }
    WaitForWatcher();
  }

  const HostMembership& membership() const override { return membership_; }

  Status ShareSegment(const std::string& name, std::uint64_t bytes, int* descriptor) override {
    if (world_->states[0].load() != RankState::kAlive) {
      return Internal("rank 0 (" + DescribeRank(0) + ") ended or left before it shared segment '" +
                      name + "' with rank " + std::to_string(membership_.rank));
    }
    OwnedDescriptor segment;
    const Status status = world_->segments.Share(name, bytes, &segment);
    if (status.ok()) *descriptor = segment.Release();
    return status;
  }

  RankState state(std::int32_t world_rank) const override {
    return InWorld(world_rank) ? world_->states[static_cast<std::size_t>(world_rank)].load()
                               : RankState::kAlive;
  }

  std::string DescribeRank(std::int32_t world_rank) const override {
    if (!InWorld(world_rank)) return "not of this host";
    const std::string text = "pid " + std::to_string(::getpid());
    switch (state(world_rank)) {
      case RankState::kLeft:
        return text + ", which left the job";
      case RankState::kDead:
        return text + ", which ended without leaving the job (killed, crashed, or os._exit)";
      default:
        return text;
    }
  }

  void SetDeathHandler(std::function<void(std::int32_t)> handler) override {
    const bool stops = !handler;
    std::vector<std::int32_t> ranks;
    {
      const std::lock_guard<std::mutex> lock(world_->mutex);
      handler_ = std::move(handler);
      if (!stops) ranks.swap(undelivered_);
    }
    if (stops) WaitForWatcher();
    for (const std::int32_t rank : ranks) PostDeath(world_, membership_.rank, rank);
  }

  void Leave() override { Mark(RankState::kLeft); }

  void MarkDead() {
    if (!Mark(RankState::kDead)) return;
    for (const std::int32_t other : membership_.host_ranks) {
      if (other != membership_.rank) PostDeath(world_, other, membership_.rank);
    }
  }

 private:
  bool InWorld(std::int32_t rank) const { return rank >= 0 && rank < membership_.size; }

  bool Mark(RankState state) {
    RankState expected = RankState::kAlive;
    return world_->states[static_cast<std::size_t>(membership_.rank)].compare_exchange_strong(
        expected, state);
  }

  // Tells `receiver` of the death on the watcher thread, or when it has a handler.
  static void PostDeath(const std::shared_ptr<InProcessWorld>& world, std::int32_t receiver,
                        std::int32_t dead) {
    ProcessWatcher* watcher = nullptr;
    if (!ProcessWatcher::Get(&watcher).ok()) return;
    watcher->Post([world, receiver, dead] {
      std::function<void(std::int32_t)> handler;
      {
        const std::lock_guard<std::mutex> lock(world->mutex);
        InProcessChannel* channel = world->channels[static_cast<std::size_t>(receiver)];
        if (channel == nullptr) return;
        handler = channel->handler_;
        if (!handler) channel->undelivered_.push_back(dead);
      }
      if (handler) handler(dead);
    });
  }

  // A job of one rank has nobody to watch: it starts no thread, and works in a forked child.
  void WaitForWatcher() const {
    ProcessWatcher* watcher = nullptr;
    if (membership_.size > 1 && ProcessWatcher::Get(&watcher).ok()) watcher->Run([] {});
  }

  const std::shared_ptr<InProcessWorld> world_;
  HostMembership membership_;
  // Both guarded by world_->mutex.
  std::function<void(std::int32_t)> handler_;
  std::vector<std::int32_t> undelivered_;
};

}  // namespace

std::vector<std::unique_ptr<HostChannel>> MakeChannelsInProcess(std::int32_t size) {
  const auto world = std::make_shared<InProcessWorld>(size);
  std::vector<std::unique_ptr<HostChannel>> channels;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    channels.push_back(std::make_unique<InProcessChannel>(world, rank));
  }
  return channels;
}

void MarkDead(HostChannel& channel) {
  if (auto* in_process = dynamic_cast<InProcessChannel*>(&channel)) {
    in_process->MarkDead();
  } else if (auto* met = dynamic_cast<MetChannel*>(&channel)) {
    met->MarkDeadForTest();
  }
}

}  // namespace control
}  // namespace npu_bridge
