// A job inside the test process: one World a rank, over in-process channels. Requests of all ranks
// may come from one thread, since Submit does not block.
#ifndef NPU_BRIDGE_TESTS_CPP_COMM_JOB_H_
#define NPU_BRIDGE_TESTS_CPP_COMM_JOB_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/world.h"

namespace npu_bridge {
namespace comm_test {

// A request in flight and, after its callback, its outcome.
class Pending {
 public:
  void Set(const Status& status, std::vector<CollectiveResult> results);
  bool done() const;
  // Fails the test when the callback does not run within a minute.
  Status Wait();
  std::string Message() { return Wait().message(); }
  // Results of tensor `index`, after an ok.
  std::vector<float> Floats(std::size_t index = 0);
  std::vector<CollectiveResult>& results() { return results_; }
  void Release();

  RequestId id = 0;
  std::shared_ptr<CollectiveRequest> request;
  std::vector<std::vector<char>> inputs;
  std::vector<std::vector<char>> allocated;
  int callbacks = 0;

  ~Pending() { Release(); }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Status status_;
  std::vector<CollectiveResult> results_;
};

// What to ask for; the defaults are an allreduce of float32.
struct Ask {
  Collective collective = Collective::kAllReduce;
  std::string name = "op";
  std::vector<std::vector<std::int64_t>> shapes = {{4}};
  float value = 1.0f;  // of every element; float32 only, other types are zero
  DataType type = DataType::kFloat32;
  std::function<void(CollectiveRequest*)> edit;
};

Settings QuickSettings();

class Job {
 public:
  explicit Job(std::int32_t size, Settings settings = QuickSettings());
  ~Job();

  std::int32_t size() const { return size_; }
  World& world(std::int32_t rank) { return *worlds_[static_cast<std::size_t>(rank)]; }
  // Of the rank's present start.
  control::HostChannel& channel(std::int32_t rank);

  // Starts all worlds; blocks.
  void Start();
  void Shutdown();

  std::shared_ptr<Pending> Submit(std::int32_t rank, const Ask& ask);
  // The same request on each of `ranks` (default: all).
  std::vector<std::shared_ptr<Pending>> SubmitOnAll(const Ask& ask);
  // Expects that all end with the code and one text, which it returns.
  static std::string ExpectSameFailure(const std::vector<std::shared_ptr<Pending>>& pending,
                                       StatusCode code);
  static void ExpectOk(const std::vector<std::shared_ptr<Pending>>& pending);

  // Runs body(rank) on a thread for each rank.
  void OnEachRank(const std::function<void(std::int32_t)>& body);

  // A line "name=value" of world(rank).Describe().
  std::int64_t Counter(std::int32_t rank, const std::string& name);
  // Waits for it; false after a minute.
  bool WaitForCounter(std::int32_t rank, const std::string& name, std::int64_t value);

 private:
  Status Meet(std::int32_t rank, const std::atomic<bool>& interrupted,
              std::shared_ptr<control::HostChannel>* channel);

  const std::int32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Meeting {
    std::vector<std::shared_ptr<control::HostChannel>> channels;
    std::int32_t arrived = 0;
  };
  std::vector<Meeting> meetings_;
  std::vector<std::size_t> starts_;  // of each rank
  std::vector<std::unique_ptr<World>> worlds_;
};

}  // namespace comm_test
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_TESTS_CPP_COMM_JOB_H_
