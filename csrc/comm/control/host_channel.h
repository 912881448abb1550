// The channel between the ranks of one host: how they meet, share memory, and learn of each other's
// end. What is said over the shared memory (matching, failures) is comm's.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_HOST_CHANNEL_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_HOST_CHANNEL_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/common/settings.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

enum class RankState : std::uint32_t {
  kAlive = 0,
  kLeft = 1,  // said goodbye: shutdown, or a normal exit of the interpreter
  kDead = 2,  // its process ended without a goodbye
};

struct HostMembership {
  std::int32_t rank = 0;                 // world rank of this process
  std::int32_t size = 1;                 // of the world
  std::vector<std::int32_t> host_ranks;  // world ranks here, ascending
  std::int32_t host_rank = 0;            // place of this rank in host_ranks
  std::vector<pid_t> process_ids;        // by place in host_ranks
};

class HostChannel {
 public:
  virtual ~HostChannel() = default;

  virtual const HostMembership& membership() const = 0;

  // The memory file of that name, the same on all ranks of the host; see share_segment in
  // csrc/transport/transport.h. The caller owns the descriptor.
  virtual Status ShareSegment(const std::string& name, std::uint64_t bytes, int* descriptor) = 0;

  // By world rank of this host. Reads shared memory: cheap, any thread. Ranks elsewhere: kAlive.
  virtual RankState state(std::int32_t world_rank) const = 0;
  // "pid 4711" plus what is known of the end, for messages.
  virtual std::string DescribeRank(std::int32_t world_rank) const = 0;

  // `handler` runs on the watcher thread, once for each rank of the host that died. (A rank that
  // left says so itself, through comm.) Set before the first request; nullptr stops it, and returns
  // only when no call is running.
  virtual void SetDeathHandler(std::function<void(std::int32_t world_rank)> handler) = 0;

  // Marks this rank as having left. Idempotent.
  virtual void Leave() = 0;
};

// Meets the ranks described on this host. Blocks; ends early when *interrupted becomes true
// (Cancelled). On the first slow_start_s of waiting, rank 0 (the lowest one there) says on stderr
// who is missing and where it looks. Errors name the missing ranks, claimed-twice ranks with their
// pids, and what to set.
Status MeetOnHost(const ClusterDescription& cluster, const Settings& settings,
                  const std::atomic<bool>& interrupted, std::unique_ptr<HostChannel>* channel);

// A world of `size` ranks inside this process, for tests with threads as ranks, and for size 1.
// Entry r is rank r's channel. MarkDead on one simulates its death for the others.
std::vector<std::unique_ptr<HostChannel>> MakeChannelsInProcess(std::int32_t size);
void MarkDead(HostChannel& channel);

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_HOST_CHANNEL_H_
