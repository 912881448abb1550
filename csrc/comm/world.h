// The ranks of a job as one of them sees it: meeting, groups, and the way of every request.
//
// A process has one world (ProcessWorld); tests make several, with threads as ranks. C++14, since
// kernels include it.
#ifndef NPU_BRIDGE_CSRC_COMM_WORLD_H_
#define NPU_BRIDGE_CSRC_COMM_WORLD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/common/collective_request.h"
#include "csrc/common/settings.h"
#include "csrc/common/status.h"

namespace npu_bridge {

namespace control {
class HostChannel;
}

constexpr const char* kWorldGroup = "hccl_world_group";

// Fills in what the world needs to start. May block and may fail with a text for the user.
using ConfigurationProvider = std::function<Status(ClusterDescription*, Settings*)>;

// How a world meets the other ranks: control::MeetOnHost, or what a test puts in its place.
using Meeting = std::function<Status(const ClusterDescription&, const Settings&,
                                     const std::atomic<bool>& interrupted,
                                     std::shared_ptr<control::HostChannel>*)>;

// Names a request in flight, so that it can be cancelled. 0 is never used.
using RequestId = std::uint64_t;

class World {
 public:
  explicit World(ConfigurationProvider provider);
  // For tests with threads as ranks: `meeting` gives channels inside this process, and "auto" means
  // the loopback transport.
  World(ConfigurationProvider provider, Meeting meeting);
  // Shuts down; requests in flight end with an error first.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Meets the other ranks; blocks until all are there or the connect timeout has passed. A second
  // call waits for the first. After Shutdown it starts anew.
  Status Start();

  // Tells the other ranks that this one leaves by a normal exit. Requests in flight end with an
  // error; memory that results were handed out in stays valid. Groups are forgotten.
  void Shutdown();

  bool started() const;

  // How often Shutdown has ended a world that was started. What ranks count together (steps, eager
  // calls) starts anew with each: kernels compare this number with the one they counted under.
  std::uint64_t generation() const;

  // Of the world; reads the configuration if that has not been done, without meeting anyone
  // (except where ranks are numbered by the meeting).
  Status RankAndSize(std::int32_t* rank, std::int32_t* size);
  // World ranks that met on this host, ascending. Starts the world.
  Status HostRanks(std::vector<std::int32_t>* ranks);

  // Groups are local knowledge: nothing is sent, and only members create one. Argument checks that
  // need only Python values are made there; these repeat none but what would break an invariant.
  Status CreateGroup(const std::string& name, const std::vector<std::int32_t>& ranks);
  Status DestroyGroup(const std::string& name);
  Status GroupRanks(const std::string& name, std::vector<std::int32_t>* ranks);
  std::vector<std::string> GroupNames();

  // Hands a request over; returns at once, or after a short bounded spin with the callback run. The
  // first request on a world that has not started makes a thread of the world start it.
  // The callback always runs exactly once.
  RequestId Submit(std::shared_ptr<CollectiveRequest> request, CollectiveCallback done);

  // Ends a request with CancelledError on this rank and, with the same text, on its peers. Unknown
  // or finished ids are ignored.
  void Cancel(RequestId id, const std::string& reason);
  void CancelAll(const std::string& reason);

  // Counters of the transport and of matching, "name=value" lines, for tests and reports.
  std::string Describe();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// This process's world; lives until the process ends. Its provider must be set before first use.
World& ProcessWorld();
void SetProcessConfigurationProvider(ConfigurationProvider provider);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_WORLD_H_
