#include "csrc/comm/control/process_watcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

namespace npu_bridge {
namespace control {
namespace {

constexpr std::chrono::milliseconds kTick{500};
constexpr char kWakeByte = 0;                      // no signal has this number
constexpr ProcessWatcher::Token kSignalToken = 0;  // the pipe's, not given to anyone

}  // namespace

Status ProcessWatcher::Get(ProcessWatcher** watcher) {
  static std::mutex mutex;
  static ProcessWatcher* started = nullptr;  // never destroyed: its thread outlives main()
  const Status forked = CheckNotForked();
  if (!forked.ok()) return forked;
  const std::lock_guard<std::mutex> lock(mutex);
  if (started == nullptr) {
    std::unique_ptr<ProcessWatcher> made(new ProcessWatcher);
    const Status status = made->Start();
    if (!status.ok()) return status;
    started = made.release();
  }
  *watcher = started;
  return Status::Ok();
}

Status ProcessWatcher::Start() {
  epoll_ = OwnedDescriptor::Make([] { return ::epoll_create1(EPOLL_CLOEXEC); });
  signals_ = TheProcessPipe();
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = kSignalToken;
  if (!epoll_.valid() || signals_.read_end < 0 ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, signals_.read_end, &event) != 0) {
    return ResourceExhausted(WithErrno(
        "cannot make the descriptors that watch over the other ranks (see ulimit -n)", errno));
  }
  // Signals from before anything waited are nobody's.
  std::array<char, 256> bytes;
  while (::read(signals_.read_end, bytes.data(), bytes.size()) > 0) continue;
  // The new thread inherits the mask: signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    std::unique_lock<std::mutex> lock(mutex_);
    std::thread thread([this] { Loop(); });
    thread_id_ = thread.get_id();
    thread.detach();
  } catch (const std::system_error& error) {
    status = ResourceExhausted(
        std::string("cannot start the thread that watches over the other ranks (see ulimit -u): ") +
        error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

void ProcessWatcher::Loop() {
  {
    // Start() writes thread_id_ under the lock.
    const std::lock_guard<std::mutex> lock(mutex_);
  }
  pthread_setname_np(pthread_self(), "npu_watcher");
  auto next_tick = std::chrono::steady_clock::now() + kTick;
  while (true) {
    int timeout = -1;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (tick_count_ > 0) {
        const auto left = next_tick - std::chrono::steady_clock::now();
        const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
        timeout = left_ms < 0 ? 0 : static_cast<int>(left_ms) + 1;
      }
    }
    std::array<epoll_event, 32> events;
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    for (int i = 0; i < count; ++i) {
      const Token token = events[static_cast<std::size_t>(i)].data.fd;
      if (token == kSignalToken) {
        ReadSignals();
      } else {
        Call(token, [](const Callback& callback) { callback.ready(); });
      }
    }
    RunTasks();
    if (std::chrono::steady_clock::now() >= next_tick) {
      next_tick = std::chrono::steady_clock::now() + kTick;
      CallAll([](const Callback& callback) { return static_cast<bool>(callback.tick); },
              [](const Callback& callback) { callback.tick(); });
    }
  }
}

void ProcessWatcher::ReadSignals() {
  std::array<char, 256> bytes;
  ssize_t got = 0;
  while ((got = ::read(signals_.read_end, bytes.data(), bytes.size())) > 0) {
    for (ssize_t i = 0; i < got; ++i) {
      const int number = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
      if (number != SIGINT && number != SIGTERM) continue;
      const std::string name = number == SIGINT ? "SIGINT" : "SIGTERM";
      CallAll([](const Callback& callback) { return static_cast<bool>(callback.interrupt); },
              [&name](const Callback& callback) { callback.interrupt(name); });
    }
  }
}

void ProcessWatcher::Call(Token token, const std::function<void(const Callback&)>& call) {
  std::shared_ptr<Callback> callback;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = callbacks_.find(token);
    if (found == callbacks_.end()) return;  // removed after epoll reported it
    callback = found->second;
    running_ = token;
  }
  call(*callback);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ = 0;
  }
  idle_.notify_all();
}

void ProcessWatcher::CallAll(bool (*wanted)(const Callback&),
                             const std::function<void(const Callback&)>& call) {
  std::vector<Token> tokens;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& entry : callbacks_) {
      if (wanted(*entry.second)) tokens.push_back(entry.first);
    }
  }
  for (const Token token : tokens) Call(token, call);
}

void ProcessWatcher::RunTasks() {
  std::deque<std::function<void()>> tasks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

void ProcessWatcher::Wake() {
  // A full pipe wakes the thread as well.
  [[maybe_unused]] const ssize_t written = ::write(signals_.write_end, &kWakeByte, 1);
}

ProcessWatcher::Token ProcessWatcher::Add(Callback callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (callback.tick) ++tick_count_;
  const Token token = next_token_++;
  callbacks_[token] = std::make_shared<Callback>(std::move(callback));
  return token;
}

Status ProcessWatcher::Watch(int descriptor, std::function<void()> ready, Token* token) {
  Callback callback;
  callback.watched = descriptor;
  callback.ready = std::move(ready);
  *token = Add(std::move(callback));
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = *token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    const int error = errno;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      callbacks_.erase(*token);
    }
    *token = 0;
    return ResourceExhausted(WithErrno("cannot watch over another rank", error));
  }
  return Status::Ok();
}

ProcessWatcher::Token ProcessWatcher::AddTick(std::function<void()> tick) {
  Callback callback;
  callback.tick = std::move(tick);
  const Token token = Add(std::move(callback));
  Wake();
  return token;
}

ProcessWatcher::Token ProcessWatcher::AddInterruptHandler(
    std::function<void(const std::string&)> handler) {
  Callback callback;
  callback.interrupt = std::move(handler);
  return Add(std::move(callback));
}

void ProcessWatcher::Remove(Token token) {
  // The thread does not exist in a forked child, and the lock may have been held over the fork.
  if (token == 0 || IsForkedChild()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = callbacks_.find(token);
  if (found != callbacks_.end()) {
    if (found->second->watched >= 0) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->watched, nullptr);
    }
    if (found->second->tick) --tick_count_;
    callbacks_.erase(found);
  }
  if (!OnWatcherThread()) idle_.wait(lock, [this, token] { return running_ != token; });
}

void ProcessWatcher::Post(std::function<void()> task) {
  if (IsForkedChild()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  Wake();
}

void ProcessWatcher::Run(const std::function<void()>& task) {
  if (IsForkedChild()) return;
  if (OnWatcherThread()) {
    task();
    return;
  }
  bool done = false;
  std::mutex mutex;
  std::condition_variable finished;
  Post([&] {
    task();
    // Notified under the lock: the waiter destroys both as soon as it can take it.
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
    finished.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  finished.wait(lock, [&done] { return done; });
}

}  // namespace control
}  // namespace npu_bridge
