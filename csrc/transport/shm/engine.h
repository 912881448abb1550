// Drives the operations of one rank: in the thread that starts them for a moment, then in a worker.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_ENGINE_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_ENGINE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "csrc/common/status.h"
#include "csrc/transport/shm/layout.h"
#include "csrc/transport/shm/operation.h"

namespace npu_bridge {
namespace shm {

class Engine {
 public:
  // `own` is this rank's record. `may_spin`: a processor is to spare for each rank of the host.
  // `idle` runs on the worker now and then while nothing is to be done.
  Engine(RankRecord* own, std::function<bool()> may_spin, std::function<void()> idle);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Status Open();
  void Start(std::unique_ptr<Operation> operation);
  void Cancel(std::uint64_t match_id, const Status& reason);

  std::uint64_t completed() const { return completed_.load(); }
  std::uint64_t completed_inline() const { return completed_inline_.load(); }
  std::uint64_t in_flight() const { return in_flight_.load(); }

 private:
  void Work();
  // Advances what is pending; true when something ended or came in.
  bool AdvancePending();
  void Complete(Operation* operation);

  RankRecord& own_;
  const std::function<bool()> may_spin_;
  const std::function<void()> idle_;

  std::mutex mutex_;
  Operation* active_ = nullptr;          // all operations in flight; guarded by mutex_
  std::vector<Operation*> handed_over_;  // to the worker; guarded by mutex_
  std::atomic<bool> has_handed_over_{false};
  std::atomic<bool> stop_{false};

  std::vector<Operation*> pending_;  // the worker's alone
  std::thread worker_;

  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint64_t> completed_inline_{0};
  std::atomic<std::uint64_t> in_flight_{0};
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_ENGINE_H_
