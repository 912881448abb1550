#include "csrc/comm/world_implementation.h"

#include <utility>

#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/control/process_events.h"
#include "csrc/comm/messages.h"
#include "csrc/common/worker_thread.h"

namespace npu_bridge {

using comm::Engine;
using comm::Operation;

World::Implementation::Implementation(ConfigurationProvider provider, Meeting meeting,
                                      bool in_process)
    : provider_(std::move(provider)), meeting_(std::move(meeting)), in_process_(in_process) {}

World::Implementation::~Implementation() {
  Shutdown();
  if (start_thread_.joinable()) start_thread_.join();
}

Status World::Implementation::Configure(ClusterDescription* cluster, Settings* settings) {
  std::lock_guard<std::mutex> lock(configuration_mutex_);
  if (!configured_) {
    ClusterDescription read_cluster;
    Settings read_settings;
    Status status = provider_(&read_cluster, &read_settings);
    if (!status.ok()) return status;
    if (!read_cluster.unnumbered && (read_cluster.size < 1 || read_cluster.rank < 0 ||
                                     read_cluster.rank >= read_cluster.size)) {
      return InvalidArgument("This process is rank " + std::to_string(read_cluster.rank) +
                             " of a world of " + std::to_string(read_cluster.size) +
                             " ranks: the rank must lie in [0, size).");
    }
    cluster_ = read_cluster;
    settings_ = read_settings;
    configured_ = true;
    if (!cluster_.unnumbered) groups_.Reset(cluster_.rank, cluster_.size);
  }
  *cluster = cluster_;
  *settings = settings_;
  return Status::Ok();
}

Status World::Implementation::EnsureConfigured() {
  ClusterDescription cluster;
  Settings settings;
  Status status = Configure(&cluster, &settings);
  if (status.ok() && cluster.unnumbered) status = Start();
  return status;
}

Status World::Implementation::RankAndSize(std::int32_t* rank, std::int32_t* size) {
  ClusterDescription cluster;
  Settings settings;
  Status status = Configure(&cluster, &settings);
  if (!status.ok()) return status;
  if (cluster.unnumbered) {
    control::HostMembership membership;
    status = Membership(&membership);
    cluster.rank = membership.rank;
    cluster.size = membership.size;
  }
  *rank = cluster.rank;
  *size = cluster.size;
  return status;
}

Status World::Implementation::Membership(control::HostMembership* membership) {
  Status status = Start();
  if (!status.ok()) return status;
  std::lock_guard<std::mutex> lock(mutex_);
  if (engine_ == nullptr) return FailedPrecondition("The world has been shut down meanwhile.");
  *membership = engine_->membership();
  return Status::Ok();
}

bool World::Implementation::started() {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_ == State::kStarted;
}

Status World::Implementation::Start() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::kStopping; });
  if (state_ == State::kStarted) return Status::Ok();
  if (state_ == State::kIdle) {
    const Status status = BeginStartLocked();
    if (!status.ok()) return status;
  }
  changed_.wait(lock, [this] { return state_ != State::kStarting; });
  return start_status_;
}

Status World::Implementation::BeginStartLocked() {
  // The thread before has said that it is through, and touches nothing of ours any more.
  if (start_thread_.joinable()) start_thread_.join();
  interrupted_.store(false);
  const Status status = StartWorkerThread("npu_start", [this] { RunStart(); }, &start_thread_);
  // The new thread takes mutex_, which is held here, before it looks at the state.
  if (status.ok()) state_ = State::kStarting;
  return status;
}

void World::Implementation::RunStart() {
  const int token = control::AddInterruptHandler(
      [this](const std::string& signal_name) { OnInterrupt(signal_name); });
  std::shared_ptr<Engine> engine;
  const Status status = MeetAndOpen(&engine);
  if (!status.ok()) {
    control::RemoveInterruptHandler(token);
    // The next start reads the configuration again: the user may have mended it.
    std::lock_guard<std::mutex> lock(configuration_mutex_);
    configured_ = false;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  engine_ = engine;
  start_status_ = status;
  if (status.ok()) interrupt_token_ = token;
  // Requests that come meanwhile queue up behind: they are submitted in the order they came in.
  while (!queue_.empty()) {
    const std::shared_ptr<Operation> operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (status.ok()) {
      SubmitTo(engine.get(), operation, false);
    } else {
      End(operation, Status(status.code(), comm::DescribeOp(*operation->request) +
                                               ": the ranks could not start: " + status.message()));
    }
    lock.lock();
  }
  // The last that this thread does: whoever starts the world next waits for its end.
  state_ = status.ok() ? State::kStarted : State::kIdle;
  changed_.notify_all();
}

Status World::Implementation::MeetAndOpen(std::shared_ptr<Engine>* engine) {
  ClusterDescription cluster;
  Settings settings;
  Status status = Configure(&cluster, &settings);
  if (!status.ok()) return status;
  std::shared_ptr<control::HostChannel> channel;
  if (cluster.size == 1 && !cluster.unnumbered) {
    channel = std::move(control::MakeChannelsInProcess(1)[0]);
  } else {
    status = meeting_(cluster, settings, interrupted_, &channel);
    if (!status.ok()) return status;
  }
  if (cluster.unnumbered) groups_.Reset(channel->membership().rank, channel->membership().size);
  return Engine::Start(std::move(channel), settings, interrupted_, in_process_, engine);
}

void World::Implementation::Shutdown() {
  std::shared_ptr<Engine> engine;
  std::vector<std::thread> enders;
  int token = -1;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (state_ == State::kStarting) interrupted_.store(true);
    changed_.wait(lock, [this] { return state_ == State::kIdle || state_ == State::kStarted; });
    engine = std::move(engine_);
    engine_ = nullptr;
    state_ = State::kStopping;
    std::swap(token, interrupt_token_);
    enders.swap(enders_);
  }
  for (std::thread& ender : enders) ender.join();
  if (token != -1) control::RemoveInterruptHandler(token);
  if (engine != nullptr) generation_.fetch_add(1);
  if (engine != nullptr && !engine->Stop()) {
    // A transport still holds a request and may call back: what it points to stays.
    static std::mutex kept_mutex;
    static auto* kept = new std::vector<std::shared_ptr<Engine>>;
    std::lock_guard<std::mutex> lock(kept_mutex);
    kept->push_back(engine);
  }
  {
    std::lock_guard<std::mutex> lock(configuration_mutex_);
    configured_ = false;
    groups_.Clear();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = State::kIdle;
  changed_.notify_all();
}

void World::Implementation::OnInterrupt(const std::string& signal_name) {
  interrupted_.store(true);
  Cancel(0, "interrupted by " + signal_name + ".");
}

void World::Implementation::Forget(const std::shared_ptr<const comm::Group>& group) {
  std::shared_ptr<Engine> engine;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    engine = engine_;
  }
  if (engine != nullptr) engine->Forget(group);
}

RequestId World::Implementation::Submit(std::shared_ptr<CollectiveRequest> request,
                                        CollectiveCallback done) {
  const RequestId id = next_id_.fetch_add(1);
  const auto operation = std::make_shared<Operation>(id, std::move(request), std::move(done));
  // Unknown where the configuration has not been read yet: SubmitTo looks again.
  groups_.Find(operation->request->group, &operation->named_group);
  std::shared_ptr<Engine> engine;
  Status status;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kIdle) status = BeginStartLocked();
    if (state_ == State::kStarting) {
      queue_.push_back(operation);
      return id;
    }
    engine = engine_;
  }
  if (!status.ok()) {
    End(operation,
        Status(status.code(), comm::DescribeOp(*operation->request) + ": " + status.message()));
  } else if (engine == nullptr) {
    End(operation, FailedPrecondition(comm::DescribeOp(*operation->request) +
                                      ": this rank is shutting down."));
  } else {
    SubmitTo(engine.get(), operation, true);
  }
  return id;
}

void World::Implementation::SubmitTo(Engine* engine, const std::shared_ptr<Operation>& operation,
                                     bool may_spin) {
  const Status found = operation->named_group != nullptr
                           ? Status::Ok()
                           : groups_.Find(operation->request->group, &operation->named_group);
  if (!found.ok()) {
    // Nobody else is told: this rank is in no group under whose key the others could wait.
    End(operation, InvalidArgument(comm::DescribeOp(*operation->request) + ": " + found.message()));
    return;
  }
  engine->Submit(operation, operation->named_group, may_spin);
}

void World::Implementation::End(const std::shared_ptr<Operation>& operation, const Status& status) {
  const CollectiveCallback done = std::move(operation->done);
  done(status, {});
}

void World::Implementation::Cancel(RequestId id, const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (engine_ != nullptr) engine_->Cancel(id, reason);
  // Callbacks never run on the cancelling thread, which may hold what they need.
  std::vector<std::shared_ptr<Operation>> ended;
  for (auto i = queue_.begin(); i != queue_.end();) {
    if (id == 0 || (*i)->id == id) {
      ended.push_back(std::move(*i));
      i = queue_.erase(i);
    } else {
      ++i;
    }
  }
  if (ended.empty()) return;
  std::thread ender;
  const Status started = StartWorkerThread(
      "npu_cancel",
      [ended, reason] {
        for (const std::shared_ptr<Operation>& operation : ended) {
          End(operation, Cancelled(comm::DescribeOp(*operation->request) +
                                   ": ended before the ranks had met: " + reason));
        }
      },
      &ender);
  if (started.ok()) {
    enders_.push_back(std::move(ender));
  } else {
    // They end with the start, then.
    queue_.insert(queue_.begin(), ended.begin(), ended.end());
  }
}

std::string World::Implementation::Describe() {
  std::shared_ptr<Engine> engine;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    engine = engine_;
  }
  return engine == nullptr ? "started=0\n" : "started=1\n" + engine->Describe();
}

}  // namespace npu_bridge
