// The channel of a rank that has met the others of its host by a registrar.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_MET_CHANNEL_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_MET_CHANNEL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/comm/control/control_block.h"
#include "csrc/comm/control/fork_guard.h"
#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/control/messages.h"
#include "csrc/comm/control/process_watcher.h"
#include "csrc/comm/control/segment_store.h"

namespace npu_bridge {
namespace control {

// A rank's end is seen by its pidfd, at once; and, where that is refused (and after an exec, which
// no pidfd shows), by its liveness lock, within half a second.
class MetChannel : public HostChannel {
 public:
  // Takes this rank's place in the world: from here on others see whether it lives. `links` are the
  // sockets to the other members by rank (leader), or the one to rank 0 (others).
  static Status Join(const WorldMessage& world, const OwnedDescriptor& control_memory,
                     std::map<std::int32_t, OwnedDescriptor> links,
                     std::chrono::seconds segment_timeout, std::unique_ptr<MetChannel>* channel);
  ~MetChannel() override;

  WorldPhase Decide(WorldPhase phase) { return block_->Decide(phase); }
  // Begins to watch the others and to serve them. The world is complete.
  Status Begin();

  const HostMembership& membership() const override { return membership_; }
  Status ShareSegment(const std::string& name, std::uint64_t bytes, int* descriptor) override;
  RankState state(std::int32_t world_rank) const override;
  std::string DescribeRank(std::int32_t world_rank) const override;
  void SetDeathHandler(std::function<void(std::int32_t world_rank)> handler) override;
  void Leave() override;

  void MarkDeadForTest();

 private:
  struct Peer {
    WorldMember member;
    OwnedDescriptor pidfd;
    ProcessWatcher::Token token = 0;
  };
  struct Link {
    OwnedDescriptor socket;
    ProcessWatcher::Token token = 0;
  };

  MetChannel() = default;
  bool InWorld(std::int32_t rank) const { return rank >= 0 && rank < membership_.size; }
  void WatchPeer(std::int32_t rank);
  void CheckPeers();
  void SeeEnd(std::int32_t rank);
  void Report(std::int32_t rank);
  void Serve(std::int32_t rank);
  void CloseLinks();
  Status AskLeader(const std::string& name, std::uint64_t bytes, int* descriptor);
  Status LeaderIsGone(const std::string& name) const;

  HostMembership membership_;
  std::uint64_t pid_namespace_ = 0;
  std::chrono::seconds segment_timeout_{0};
  ProcessWatcher* watcher_ = nullptr;
  std::unique_ptr<ControlBlock> block_;

  // Of the watcher thread, once Begin has been called.
  std::vector<Peer> peers_;  // by rank
  std::map<std::int32_t, Link> links_;
  ProcessWatcher::Token tick_ = 0;

  SegmentStore segments_;   // the leader's
  std::mutex asking_;       // one question to the leader at a time
  OwnedDescriptor leader_;  // guarded by asking_

  std::mutex handler_mutex_;
  std::function<void(std::int32_t)> handler_;
  std::vector<bool> reported_;
  std::vector<std::int32_t> undelivered_;  // deaths seen before there was a handler
};

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_MET_CHANNEL_H_
