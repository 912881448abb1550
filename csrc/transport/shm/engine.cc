#include "csrc/transport/shm/engine.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "csrc/common/processor.h"
#include "csrc/transport/shm/bell.h"

namespace npu_bridge {
namespace shm {
namespace {

using Clock = std::chrono::steady_clock;

// A hand-over to another thread costs as much.
constexpr std::chrono::microseconds kSpin{50};
// Without yielding, so long as the peer probably runs on another processor.
constexpr std::chrono::microseconds kPureSpin{10};
// With fewer processors than ranks: how often others are let run before this rank sleeps.
constexpr int kYields = 64;
constexpr std::chrono::microseconds kYieldLimit{200};

constexpr std::int64_t kIdleCheckMs = 5000;
// For a wait that no bell ends: another member is setting up a record.
constexpr std::int64_t kSetUpCheckMs = 1;

// Calls `attempt` until it succeeds or the time for that is over. True when it succeeded.
template <typename Attempt>
bool TryForAMoment(bool may_spin, Attempt&& attempt) {
  const Clock::time_point begin = Clock::now();
  if (!may_spin) {
    for (int i = 0; i < kYields; ++i) {
      sched_yield();
      if (attempt()) return true;
      if (Clock::now() - begin > kYieldLimit) return false;
    }
    return false;
  }
  while (true) {
    for (int i = 0; i < 16; ++i) {
      if (attempt()) return true;
      RelaxProcessor();
    }
    const auto spent = Clock::now() - begin;
    if (spent > kSpin) return false;
    // Two ranks can be on one processor although another is free; then this is what helps.
    if (spent > kPureSpin) sched_yield();
  }
}

}  // namespace

Engine::Engine(RankRecord* own, std::function<bool()> may_spin, std::function<void()> idle)
    : own_(*own), may_spin_(std::move(may_spin)), idle_(std::move(idle)) {}

Status Engine::Open() {
  // Signals are for the threads of the application.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    worker_ = std::thread([this] { Work(); });
    pthread_setname_np(worker_.native_handle(), "npu_shm");
  } catch (const std::system_error& error) {
    status = ResourceExhausted(std::string("the transport 'shm' cannot start its thread: ") +
                               error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

Engine::~Engine() {
  if (!worker_.joinable()) return;
  stop_.store(true);
  own_.bell.fetch_add(1);
  FutexWake(own_.bell, 1);
  worker_.join();
  // The caller has seen to it that nothing is in flight; a request that is must end all the same.
  pending_.insert(pending_.end(), handed_over_.begin(), handed_over_.end());
  for (Operation* operation : pending_) {
    operation->Cancel(Cancelled("the transport 'shm' was closed"));
    operation->Advance();
    Complete(operation);
  }
}

void Engine::Start(std::unique_ptr<Operation> owned) {
  Operation* operation = owned.release();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    operation->next = active_;
    if (active_ != nullptr) active_->previous = operation;
    active_ = operation;
  }
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  if (operation->Advance() ||
      TryForAMoment(may_spin_(), [operation] { return operation->Advance(); })) {
    completed_inline_.fetch_add(1, std::memory_order_relaxed);
    Complete(operation);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    handed_over_.push_back(operation);
    has_handed_over_.store(true);
  }
  Ring(own_);
}

void Engine::Complete(Operation* operation) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (operation->previous != nullptr) operation->previous->next = operation->next;
    if (operation->next != nullptr) operation->next->previous = operation->previous;
    if (active_ == operation) active_ = operation->next;
  }
  completed_.fetch_add(1, std::memory_order_relaxed);
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  operation->Finish();
  delete operation;
}

void Engine::Cancel(std::uint64_t match_id, const Status& reason) {
  {
    // Under the mutex, so that an operation found here is not deleted meanwhile.
    std::lock_guard<std::mutex> lock(mutex_);
    for (Operation* operation = active_; operation != nullptr; operation = operation->next) {
      if (operation->match_id() == match_id) operation->Cancel(reason);
    }
  }
  // Without regard to `sleeping`: the flag of an operation is no sequentially consistent store.
  own_.bell.fetch_add(1);
  FutexWake(own_.bell, 1);
}

bool Engine::AdvancePending() {
  bool progress = false;
  if (has_handed_over_.load()) {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_.insert(pending_.end(), handed_over_.begin(), handed_over_.end());
    handed_over_.clear();
    has_handed_over_.store(false);
    progress = true;
  }
  for (std::size_t i = 0; i < pending_.size();) {
    Operation* operation = pending_[i];
    if (!operation->Advance()) {
      ++i;
      continue;
    }
    pending_[i] = pending_.back();
    pending_.pop_back();
    progress = true;
    Complete(operation);
  }
  return progress;
}

void Engine::Work() {
  Clock::time_point last_idle = Clock::now();
  while (!stop_.load()) {
    if (AdvancePending()) continue;
    if (!pending_.empty() && TryForAMoment(may_spin_(), [this] { return AdvancePending(); })) {
      continue;
    }
    const bool setting_up = std::any_of(pending_.begin(), pending_.end(),
                                        [](const Operation* o) { return o->is_joining(); });
    SleepUnless(own_, setting_up ? kSetUpCheckMs : kIdleCheckMs,
                [this] { return stop_.load() || AdvancePending(); });
    const Clock::time_point now = Clock::now();
    if (now - last_idle >= std::chrono::milliseconds(kIdleCheckMs)) {
      last_idle = now;
      idle_();
    }
  }
}

}  // namespace shm
}  // namespace npu_bridge
