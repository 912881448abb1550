#include "tests/cpp/comm_job.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace npu_bridge {
namespace comm_test {
namespace {

// How long a test waits before it calls a hang a hang.
constexpr std::chrono::seconds kLimit(60);

}  // namespace

void Pending::Set(const Status& status, std::vector<CollectiveResult> results) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++callbacks;
  done_ = true;
  status_ = status;
  results_ = std::move(results);
  changed_.notify_all();
}

bool Pending::done() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

Status Pending::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, kLimit, [this] { return done_; })) {
    ADD_FAILURE() << "the callback of '" << request->node_name << "' has not run";
    return Internal("hang");
  }
  EXPECT_EQ(callbacks, 1);
  return status_;
}

std::vector<float> Pending::Floats(std::size_t index) {
  const Status status = Wait();
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok() || index >= results_.size()) return {};
  std::vector<float> values(static_cast<std::size_t>(results_[index].count));
  if (!values.empty()) {
    std::memcpy(values.data(), results_[index].data, values.size() * sizeof(float));
  }
  return values;
}

void Pending::Release() {
  for (CollectiveResult& result : results_) {
    if (result.release) result.release();
    result.release = nullptr;
  }
}

Settings QuickSettings() {
  Settings settings;
  settings.exec_timeout_s = 50;
  settings.mismatch_timeout_s = 40;
  settings.stall_warn_s = 45;
  return settings;
}

Job::Job(std::int32_t size, Settings settings)
    : size_(size), starts_(static_cast<std::size_t>(size), 0) {
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const auto provide = [rank, size, settings](ClusterDescription* cluster, Settings* given) {
      cluster->rank = rank;
      cluster->size = size;
      *given = settings;
      return Status::Ok();
    };
    const auto meet = [this, rank](const ClusterDescription&, const Settings&,
                                   const std::atomic<bool>& interrupted,
                                   std::shared_ptr<control::HostChannel>* channel) {
      return Meet(rank, interrupted, channel);
    };
    worlds_.push_back(std::make_unique<World>(provide, meet));
  }
}

Job::~Job() { Shutdown(); }

// The k-th start of a rank meets the k-th starts of the others.
Status Job::Meet(std::int32_t rank, const std::atomic<bool>& interrupted,
                 std::shared_ptr<control::HostChannel>* channel) {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::size_t start = starts_[static_cast<std::size_t>(rank)]++;
  if (meetings_.size() <= start) {
    meetings_.emplace_back();
    for (auto& made : control::MakeChannelsInProcess(size_)) {
      meetings_.back().channels.push_back(std::move(made));
    }
  }
  ++meetings_[start].arrived;
  changed_.notify_all();
  while (meetings_[start].arrived < size_) {
    changed_.wait_for(lock, std::chrono::milliseconds(5));
    if (interrupted.load()) return Cancelled("the meeting was interrupted");
  }
  *channel = meetings_[start].channels[static_cast<std::size_t>(rank)];
  return Status::Ok();
}

control::HostChannel& Job::channel(std::int32_t rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto place = static_cast<std::size_t>(rank);
  return *meetings_[starts_[place] - 1].channels[place];
}

void Job::OnEachRank(const std::function<void(std::int32_t)>& body) {
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    threads.emplace_back([&body, rank] { body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

void Job::Start() {
  OnEachRank([this](std::int32_t rank) {
    const Status status = world(rank).Start();
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

void Job::Shutdown() {
  OnEachRank([this](std::int32_t rank) { world(rank).Shutdown(); });
}

std::shared_ptr<Pending> Job::Submit(std::int32_t rank, const Ask& ask) {
  auto pending = std::make_shared<Pending>();
  auto request = std::make_shared<CollectiveRequest>();
  request->collective = ask.collective;
  request->reduction = IsReducing(ask.collective) ? Reduction::kSum : Reduction::kNone;
  request->group = kWorldGroup;
  request->node_name = ask.name;
  request->tag = ask.name;
  request->rank_size = size_;
  request->claimed_rank = rank;
  for (const auto& shape : ask.shapes) {
    CollectiveTensor tensor;
    tensor.type = ask.type;
    tensor.shape = shape;
    tensor.count = 1;
    for (std::int64_t extent : shape) tensor.count *= extent;
    const auto bytes = static_cast<std::size_t>(tensor.count) * DataTypeSize(ask.type);
    pending->inputs.emplace_back(bytes);
    if (ask.type == DataType::kFloat32) {
      for (std::size_t i = 0; i < bytes; i += sizeof(float)) {
        std::memcpy(pending->inputs.back().data() + i, &ask.value, sizeof(float));
      }
    }
    if (bytes > 0 && ask.collective != Collective::kReceive) {
      tensor.input = pending->inputs.back().data();
    }
    request->tensors.push_back(tensor);
  }
  if (ask.edit) ask.edit(request.get());
  pending->allocated.resize(request->tensors.size());
  // The caller's memory outlives the callback, as the pending request does.
  Pending* raw = pending.get();
  request->allocate = [raw](std::size_t tensor, std::uint64_t bytes) -> void* {
    raw->allocated[tensor].assign(bytes, 'x');
    return raw->allocated[tensor].data();
  };
  pending->request = request;
  pending->id = world(rank).Submit(
      request, [pending](const Status& status, std::vector<CollectiveResult> results) {
        pending->Set(status, std::move(results));
      });
  return pending;
}

std::vector<std::shared_ptr<Pending>> Job::SubmitOnAll(const Ask& ask) {
  std::vector<std::shared_ptr<Pending>> pending;
  for (std::int32_t rank = 0; rank < size_; ++rank) pending.push_back(Submit(rank, ask));
  return pending;
}

std::string Job::ExpectSameFailure(const std::vector<std::shared_ptr<Pending>>& pending,
                                   StatusCode code) {
  const std::string text = pending.front()->Message();
  for (const auto& one : pending) {
    const Status status = one->Wait();
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code)) << status.message();
    EXPECT_EQ(status.message(), text);
    EXPECT_TRUE(one->results().empty());
  }
  return text;
}

void Job::ExpectOk(const std::vector<std::shared_ptr<Pending>>& pending) {
  for (const auto& one : pending) {
    const Status status = one->Wait();
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

std::int64_t Job::Counter(std::int32_t rank, const std::string& name) {
  const std::string lines = "\n" + world(rank).Describe();
  const std::size_t at = lines.find("\n" + name + "=");
  return at == std::string::npos ? -1 : std::stoll(lines.substr(at + name.size() + 2));
}

bool Job::WaitForCounter(std::int32_t rank, const std::string& name, std::int64_t value) {
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (std::chrono::steady_clock::now() < limit) {
    if (Counter(rank, name) == value) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace comm_test
}  // namespace npu_bridge
