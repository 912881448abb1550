// The one thread of this process that waits for what comes from outside: ends of other ranks,
// requests for memory segments, signals. It blocks all signals and is never stopped.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_WATCHER_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_WATCHER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

// Callbacks run on the watcher thread, one at a time, without a lock held. They must not throw, and
// must not wait for another rank.
class ProcessWatcher {
 public:
  // Never 0.
  using Token = int;

  // Starts the thread with the first call. An error when that fails, and in a forked child.
  static Status Get(ProcessWatcher** watcher);

  // Calls `ready` whenever the descriptor is readable or hung up, until Unwatch.
  Status Watch(int descriptor, std::function<void()> ready, Token* token);
  // Calls `tick` about twice a second.
  Token AddTick(std::function<void()> tick);
  Token AddInterruptHandler(std::function<void(const std::string& signal_name)> handler);
  // Ends any of the three. Returns only when the callback is not running, unless called by it.
  void Remove(Token token);

  void Post(std::function<void()> task);
  // Post, then waits for the task. On the watcher thread it runs the task itself.
  void Run(const std::function<void()>& task);

 private:
  struct Callback {
    int watched = -1;
    std::function<void()> ready;
    std::function<void()> tick;
    std::function<void(const std::string&)> interrupt;
  };

  ProcessWatcher() = default;
  Status Start();
  void Loop();
  void ReadSignals();
  void Call(Token token, const std::function<void(const Callback&)>& call);
  void CallAll(bool (*wanted)(const Callback&), const std::function<void(const Callback&)>& call);
  void RunTasks();
  void Wake();
  Token Add(Callback callback);
  bool OnWatcherThread() const { return std::this_thread::get_id() == thread_id_; }

  OwnedDescriptor epoll_;
  ProcessPipe signals_;
  std::thread::id thread_id_;

  std::mutex mutex_;  // guards what follows; not held while a callback runs
  std::condition_variable idle_;
  std::map<Token, std::shared_ptr<Callback>> callbacks_;
  Token next_token_ = 1;
  Token running_ = 0;
  int tick_count_ = 0;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_WATCHER_H_
