// World's state: configuration, groups, and the engine between Start and Shutdown.
#ifndef NPU_BRIDGE_CSRC_COMM_WORLD_IMPLEMENTATION_H_
#define NPU_BRIDGE_CSRC_COMM_WORLD_IMPLEMENTATION_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "csrc/comm/engine.h"
#include "csrc/comm/group_table.h"
#include "csrc/comm/world.h"

namespace npu_bridge {

class World::Implementation {
 public:
  Implementation(ConfigurationProvider provider, Meeting meeting, bool in_process);
  ~Implementation();

  Status Start();
  void Shutdown();
  bool started();
  std::uint64_t generation() const { return generation_.load(); }
  Status Membership(control::HostMembership* membership);
  Status RankAndSize(std::int32_t* rank, std::int32_t* size);

  // Makes the groups known; starts the world where ranks are numbered by the meeting.
  Status EnsureConfigured();
  comm::GroupTable& groups() { return groups_; }
  void Forget(const std::shared_ptr<const comm::Group>& group);

  RequestId Submit(std::shared_ptr<CollectiveRequest> request, CollectiveCallback done);
  void Cancel(RequestId id, const std::string& reason);
  std::string Describe();

 private:
  enum class State { kIdle, kStarting, kStarted, kStopping };

  Status Configure(ClusterDescription* cluster, Settings* settings);
  // Fails where no thread can be started; the state is then as before.
  Status BeginStartLocked();
  void RunStart();
  Status MeetAndOpen(std::shared_ptr<comm::Engine>* engine);
  void OnInterrupt(const std::string& signal_name);
  void SubmitTo(comm::Engine* engine, const std::shared_ptr<comm::Operation>& operation,
                bool may_spin);
  static void End(const std::shared_ptr<comm::Operation>& operation, const Status& status);

  const ConfigurationProvider provider_;
  const Meeting meeting_;
  const bool in_process_;
  comm::GroupTable groups_;

  // Held while the provider runs, which may wait for Python: never together with mutex_.
  std::mutex configuration_mutex_;
  bool configured_ = false;
  ClusterDescription cluster_;
  Settings settings_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  Status start_status_;  // of the last start
  std::shared_ptr<comm::Engine> engine_;
  std::deque<std::shared_ptr<comm::Operation>> queue_;  // came before the world had started
  std::thread start_thread_;
  std::vector<std::thread> enders_;  // run callbacks of requests cancelled in the queue
  int interrupt_token_ = -1;
  std::atomic<bool> interrupted_{false};
  std::atomic<RequestId> next_id_{1};
  std::atomic<std::uint64_t> generation_{0};  // Shutdowns of an engine so far
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_WORLD_IMPLEMENTATION_H_
