#include "csrc/comm/engine.h"

#include <algorithm>
#include <chrono>

#include "csrc/comm/clock.h"
#include "csrc/comm/messages.h"
#include "csrc/common/log.h"
#include "csrc/common/processor.h"
#include "csrc/common/worker_thread.h"

namespace npu_bridge {
namespace comm {
namespace {

// Deadlines are whole seconds; looking this often is exact enough and costs nothing measurable.
constexpr std::int64_t kTickNanoseconds = 250 * 1000 * 1000;
constexpr std::int64_t kStopSeconds = 30;

std::size_t Processors() {
  std::uint64_t mask[kProcessorMaskWords];
  ProcessorMask(mask);
  std::size_t count = 0;
  for (std::uint64_t word : mask) count += static_cast<std::size_t>(__builtin_popcountll(word));
  return count;
}

}  // namespace

Status Engine::Start(std::shared_ptr<control::HostChannel> channel, const Settings& settings,
                     const std::atomic<bool>& interrupted, bool in_process,
                     std::shared_ptr<Engine>* engine) {
  const bool alone = channel->membership().size == 1;
  std::unique_ptr<CellTable> table;
  Status status = alone ? Status::Ok() : CellTable::Open(channel.get(), &table);
  if (!status.ok()) return status;
  std::shared_ptr<TransportSet> transports;
  status = TransportSet::Open(settings, channel, in_process, &transports);
  if (!status.ok()) return status;
  // Ranks in one process start when they like, and nothing of theirs goes away with one of them.
  if (!alone && !in_process) status = table->AwaitOthers(*channel, interrupted);
  if (!status.ok()) return status;

  std::shared_ptr<Engine> made(new Engine(std::move(channel), settings));
  made->table_ = std::move(table);
  made->transports_ = std::move(transports);
  if (alone) {
    Engine* const raw = made.get();
    status = StartWorkerThread("npu_comm", [raw] { raw->RunLoneWorld(); }, &made->thread_);
  } else {
    status = made->Attach();
  }
  if (status.ok()) *engine = std::move(made);
  return status;
}

Status Engine::Attach() {
  matching_.reset(new Matching(table_.get(), channel_.get()));
  order_queue_.reset(new OrderQueue(matching_.get()));
  stall_.reset(new StallInspector(settings_, table_.get(), matching_.get(), channel_.get()));
  own_doorbell_ = table_->doorbell(static_cast<std::uint32_t>(membership().host_rank));
  const Status status = StartWorkerThread("npu_comm", [this] { Run(); }, &thread_);
  if (!status.ok()) return status;
  channel_->SetDeathHandler([this](std::int32_t) {
    death_.store(true);
    Ring();
  });
  return Status::Ok();
}

Engine::Engine(std::shared_ptr<control::HostChannel> channel, const Settings& settings)
    : settings_(settings),
      channel_(std::move(channel)),
      own_doorbell_(nullptr),
      by_cell_(channel_->membership().size > 1 ? kCellCount : 0),
      gone_told_(channel_->membership().host_ranks.size(), false) {
  const std::size_t processors = Processors();
  spins_ = processors >= channel_->membership().host_ranks.size();
}

Engine::~Engine() = default;

std::shared_ptr<GroupBinding> Engine::Bind(const std::shared_ptr<const Group>& group) {
  std::lock_guard<std::mutex> lock(bindings_mutex_);
  std::shared_ptr<GroupBinding>& binding = bindings_[group.get()];
  if (binding == nullptr) binding = std::make_shared<GroupBinding>(group, transports_);
  return binding;
}

void Engine::Forget(const std::shared_ptr<const Group>& group) {
  std::shared_ptr<GroupBinding> binding;  // ends outside the lock
  std::lock_guard<std::mutex> lock(bindings_mutex_);
  const auto found = bindings_.find(group.get());
  if (found == bindings_.end()) return;
  binding = std::move(found->second);
  bindings_.erase(found);
}

void Engine::Run() {
  for (;;) {
    // What is rung from here on ends the wait below; so all that may ring is looked at after it.
    const std::uint32_t value = own_doorbell_.Value();
    if (quit_.load()) return;
    own_doorbell_.Drain([this](std::uint32_t cell) {
      std::shared_ptr<Operation> operation;
      {
        std::lock_guard<std::mutex> lock(in_flight_mutex_);
        operation = by_cell_[cell];
      }
      if (operation == nullptr) return;
      handed_over_.fetch_add(1, std::memory_order_relaxed);
      Look(operation);
    });
    HandleCancels();
    HandleMembership();
    const std::int64_t now = MonotonicNanoseconds();
    if (now >= next_tick_) {
      Tick(now);
      next_tick_ = now + kTickNanoseconds;
    }
    // With nothing in flight the thread sleeps until it is rung. A request that parks itself reads
    // idle_ after it was counted; here the count is read after idle_ is set: one of the two sees
    // the other.
    idle_.store(true);
    if (unfinished_.load() == 0) {
      own_doorbell_.Wait(value, -1);
      idle_.store(false);
    } else {
      idle_.store(false);
      own_doorbell_.Wait(value, std::max<std::int64_t>(1, (next_tick_ - now) / 1000000));
    }
  }
}

// The thread of a world of one, where only a receive from itself can wait.
void Engine::RunLoneWorld() {
  while (!quit_.load()) {
    HandleCancels();
    FailSelfReceives(MonotonicNanoseconds());
    std::unique_lock<std::mutex> lock(events_mutex_);
    const auto rung = [this] { return quit_.load() || !cancels_.empty(); };
    idle_.store(true);
    // As in Run: who parks a receive looks at idle_ after counting it.
    if (unfinished_.load() == 0) {
      alone_.wait(lock, [&] { return rung() || unfinished_.load() != 0; });
    } else {
      alone_.wait_for(lock, std::chrono::nanoseconds(kTickNanoseconds), rung);
    }
    idle_.store(false);
  }
}

// Nobody but this rank can send what they wait for: the rule for groups in which all ranks wait.
void Engine::FailSelfReceives(std::int64_t now) {
  for (const std::shared_ptr<Operation>& operation : mailbox_.Waiting()) {
    const std::int64_t limit = settings_.mismatch_timeout_s * kNanosecondsPerSecond;
    if (now - operation->submitted_ns < limit) continue;
    const CollectiveRequest& request = *operation->request;
    Fail(operation, FailedPrecondition(
                        DescribeOp(request) + ": the only rank waited " +
                        std::to_string(settings_.mismatch_timeout_s) +
                        " s (NPU_BRIDGE_MISMATCH_TIMEOUT) to receive from itself, but has not sent "
                        "anything with sr_tag " +
                        std::to_string(request.send_receive_tag) + ". Send it first."));
  }
}

void Engine::Ring() {
  if (table_ != nullptr) {
    own_doorbell_.Ring();
    return;
  }
  // Under the lock, so that it does not fall between the look and the wait of the thread.
  std::lock_guard<std::mutex> lock(events_mutex_);
  alone_.notify_one();
}

void Engine::Cancel(RequestId id, const std::string& reason) {
  {
    std::lock_guard<std::mutex> lock(events_mutex_);
    cancels_.emplace_back(id, reason);
  }
  Ring();
}

void Engine::HandleCancels() {
  std::vector<std::pair<RequestId, std::string>> cancels;
  {
    std::lock_guard<std::mutex> lock(events_mutex_);
    cancels.swap(cancels_);
  }
  if (cancels.empty()) return;
  for (const std::shared_ptr<Operation>& operation : InFlight()) {
    for (const auto& cancel : cancels) {
      if (cancel.first != 0 && cancel.first != operation->id) continue;
      Fail(operation, Cancelled(DescribeOp(*operation->request) + ": " +
                                DescribeRank(operation->group(), operation->group().rank) +
                                " ended it: " + cancel.second));
      break;
    }
  }
}

void Engine::HandleMembership() {
  const std::uint32_t changes = table_->header()->membership_changes.load();
  if (!death_.exchange(false) && changes == membership_seen_) return;
  membership_seen_ = changes;
  matching_->SomeoneGone();
  for (const std::shared_ptr<Operation>& operation : InFlight()) FailIfSomeoneGone(operation);
  const auto& ranks = membership().host_ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (gone_told_[i] || channel_->state(ranks[i]) == control::RankState::kAlive) continue;
    gone_told_[i] = true;
    transports_->RankGone(ranks[i]);
  }
}

void Engine::FailIfSomeoneGone(const std::shared_ptr<Operation>& operation) {
  const Status failure = stall_->FindGone(*operation);
  if (!failure.ok()) Fail(operation, failure);
}

void Engine::Tick(std::int64_t now) {
  const std::vector<std::shared_ptr<Operation>> operations = InFlight();
  for (const std::shared_ptr<Operation>& operation : operations) {
    const Status expired = stall_->FindExpired(*operation, now);
    if (!expired.ok()) Fail(operation, expired);
  }
  stall_->WarnOfStalls(operations, now);
  stall_->FailDeadlocks(operations, now);
}

bool Engine::Stop() {
  stopping_.store(true);
  const std::int64_t limit = MonotonicNanoseconds() + kStopSeconds * kNanosecondsPerSecond;
  // Repeated, since a request that was on its way in may not have been there the first time.
  while (unfinished_.load() != 0 && MonotonicNanoseconds() < limit) {
    Cancel(0, "it shut down while the op was pending.");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (thread_.joinable()) {
    quit_.store(true);
    Ring();
    thread_.join();
    if (table_ != nullptr) channel_->SetDeathHandler(nullptr);
  }
  channel_->Leave();
  if (table_ != nullptr) {
    table_->header()->membership_changes.fetch_add(1);
    for (std::uint32_t i = 0; i < table_->host_size(); ++i) table_->doorbell(i).Ring();
  }
  {
    std::lock_guard<std::mutex> lock(bindings_mutex_);
    bindings_.clear();
  }
  // Threads that have just ended a request may hold its group for a moment yet. The transports must
  // be closed here, not on one of their own threads.
  std::lock_guard<std::mutex> lock(transports_mutex_);
  while (transports_.use_count() > 1 && MonotonicNanoseconds() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (unfinished_.load() != 0 || transports_.use_count() > 1) {
    WriteLogLine(LogSeverity::kWarning,
                 "rank " + std::to_string(membership().rank) + " shuts down with " +
                     Count(unfinished_.load(), "op") + " that did not end within " +
                     std::to_string(kStopSeconds) + " s of being cancelled.");
    return false;
  }
  transports_.reset();
  return true;
}

std::string Engine::Describe() {
  std::string text;
  const auto add = [&text](const char* name, std::int64_t value) {
    text += name + ("=" + std::to_string(value)) + "\n";
  };
  add("ops_submitted", submitted_.load());
  add("ops_unfinished", unfinished_.load());
  add("ops_failed", failed_.load());
  add("ops_handed_over", handed_over_.load());
  if (table_ != nullptr) {
    add("cells_in_use", table_->CellsInUse());
    add("cells_ever_used", table_->CellsEverUsed());
    add("cells_abandoned", table_->header()->abandoned.load());
    add("descriptor_bytes_in_use", static_cast<std::int64_t>(table_->heap()->BytesInUse()));
  }
  std::lock_guard<std::mutex> lock(transports_mutex_);
  return transports_ == nullptr ? text : text + transports_->Describe();
}

}  // namespace comm
}  // namespace npu_bridge
