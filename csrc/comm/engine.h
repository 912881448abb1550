// The life of requests between Start and Shutdown of a world: each is checked, meets its peers, is
// given to a transport, and ends exactly once. One thread per engine looks after those that wait.
#ifndef NPU_BRIDGE_CSRC_COMM_ENGINE_H_
#define NPU_BRIDGE_CSRC_COMM_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "csrc/comm/cell_table.h"
#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/local_exchange.h"
#include "csrc/comm/matching.h"
#include "csrc/comm/operation.h"
#include "csrc/comm/order_queue.h"
#include "csrc/comm/stall.h"
#include "csrc/comm/transport_set.h"
#include "csrc/common/settings.h"

namespace npu_bridge {
namespace comm {

class Engine {
 public:
  // Opens table and transports on a channel whose ranks have met. Blocks. `in_process`: the ranks
  // are threads.
  // A start that waits for other ranks ends early when *interrupted becomes true.
  static Status Start(std::shared_ptr<control::HostChannel> channel, const Settings& settings,
                      const std::atomic<bool>& interrupted, bool in_process,
                      std::shared_ptr<Engine>* engine);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const control::HostMembership& membership() const { return channel_->membership(); }

  // `may_spin`: wait for the peers for a moment, while there are processors to spare.
  void Submit(const std::shared_ptr<Operation>& operation,
              const std::shared_ptr<const Group>& group, bool may_spin);

  // On the engine's thread, soon. `id` 0: all requests. The caller may hold locks of its own.
  void Cancel(RequestId id, const std::string& reason);

  // A group was destroyed; requests in flight keep what they need of it.
  void Forget(const std::shared_ptr<const Group>& group);

  // Ends all requests, tells the other ranks that this one leaves, closes the transports. Not from
  // a request's callback. False when a transport did not give a request back: the engine must then
  // be kept for ever.
  bool Stop();

  std::string Describe();

  // For transports and the order queue.
  void TransportDone(Operation* operation, const npu_transport_status& status,
                     const npu_transport_result* results);
  void StartInOrder(const std::shared_ptr<Operation>& operation);

 private:
  Engine(std::shared_ptr<control::HostChannel> channel, const Settings& settings);

  Status Attach();
  std::shared_ptr<GroupBinding> Bind(const std::shared_ptr<const Group>& group);

  // engine_submit.cc: the way of a request on the threads that bring it on.
  Status Check(const Operation& operation) const;
  bool SubmitAlone(const std::shared_ptr<Operation>& operation, const Status& refusal);
  void SendToSelf(const std::shared_ptr<Operation>& operation);
  void ReceiveFromSelf(const std::shared_ptr<Operation>& operation);
  bool SubmitToGone(const std::shared_ptr<Operation>& operation);
  CellState Spin(const Operation& operation) const;
  void AwaitFailure(const Operation& operation) const;
  void Park(const std::shared_ptr<Operation>& operation);
  void Look(const std::shared_ptr<Operation>& operation);
  void Begin(const std::shared_ptr<Operation>& operation);
  void StartTransport(const std::shared_ptr<Operation>& operation);
  void Fail(const std::shared_ptr<Operation>& operation, const Status& failure);
  void Finish(const std::shared_ptr<Operation>& operation, const Status& status,
              std::vector<CollectiveResult> results);
  void Register(const std::shared_ptr<Operation>& operation);
  void WakeIfIdle();
  std::vector<std::shared_ptr<Operation>> InFlight();

  // engine.cc: the engine's thread.
  void Run();
  void RunLoneWorld();
  void FailSelfReceives(std::int64_t now);
  void HandleCancels();
  void HandleMembership();
  void FailIfSomeoneGone(const std::shared_ptr<Operation>& operation);
  void Tick(std::int64_t now);
  void Ring();

  const Settings settings_;
  const std::shared_ptr<control::HostChannel> channel_;
  std::unique_ptr<CellTable> table_;  // none in a world of one
  std::unique_ptr<Matching> matching_;
  std::unique_ptr<OrderQueue> order_queue_;
  std::unique_ptr<StallInspector> stall_;
  std::mutex transports_mutex_;  // Describe against Stop; all others end before Stop lets go
  std::shared_ptr<TransportSet> transports_;
  SelfMailbox mailbox_;
  Doorbell own_doorbell_;
  bool spins_ = false;  // there is a processor for each rank of the host

  std::mutex bindings_mutex_;
  std::unordered_map<const Group*, std::shared_ptr<GroupBinding>> bindings_;

  // By cell. A cell is this rank's until it departs, which it does after leaving this table.
  std::mutex in_flight_mutex_;
  std::vector<std::shared_ptr<Operation>> by_cell_;
  std::uint32_t cells_seen_ = 0;  // entries from here on have never been set

  std::atomic<std::int64_t> submitted_{0};
  std::atomic<std::int64_t> unfinished_{0};
  std::atomic<std::int64_t> failed_{0};
  std::atomic<std::int64_t> handed_over_{0};  // went on with on the engine's thread

  std::mutex events_mutex_;
  std::condition_variable alone_;  // in place of a doorbell in a world of one
  std::vector<std::pair<RequestId, std::string>> cancels_;
  std::atomic<bool> death_{false};
  std::atomic<bool> idle_{false};  // the thread sleeps without a limit
  std::atomic<bool> stopping_{false};
  std::atomic<bool> quit_{false};
  std::uint32_t membership_seen_ = 0;
  std::vector<bool> gone_told_;  // by place in host_ranks
  std::int64_t next_tick_ = 0;
  std::thread thread_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_ENGINE_H_
