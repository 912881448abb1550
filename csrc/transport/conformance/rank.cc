#include "csrc/transport/conformance/rank.h"

#include <cstdlib>
#include <numeric>

#include "csrc/transport/c_boundary.h"

namespace npu_bridge {
namespace conformance {

Call::~Call() { Release(); }

void Call::Start(const Group& group) {
  for (const CallTensor& tensor : tensors) {
    npu_transport_tensor c = {};
    c.data_type = static_cast<std::int32_t>(tensor.type);
    c.element_size = static_cast<std::uint32_t>(DataTypeSize(tensor.type));
    c.input = tensor.input_count > 0 ? tensor.input : nullptr;
    c.input_count = tensor.input_count;
    c.result_count = tensor.result_count;
    c.send_counts = tensor.send_counts.data();
    c.send_displacements = tensor.send_displacements.data();
    c.receive_counts = tensor.receive_counts.data();
    c.receive_displacements = tensor.receive_displacements.data();
    c_tensors_.push_back(c);
  }
  memory_.resize(tensors.size());
  npu_transport_request request = {};
  request.struct_size = sizeof(request);
  request.collective = static_cast<std::int32_t>(collective);
  request.reduction = static_cast<std::int32_t>(reduction);
  request.root = root;
  request.peer = peer;
  request.match_id = match_id;
  request.match_slot = match_slot;
  request.tensor_count = static_cast<std::uint32_t>(tensors.size());
  request.tensors = c_tensors_.data();
  request.allocate = Allocate;
  request.done = Done;
  request.context = this;
  void* operation = nullptr;
  npu_transport_status status = {};
  group.interface().start(group.handle(), &request, &operation, &status);
  if (status.code != 0) Done(this, &status, nullptr);
}

void* Call::Allocate(void* context, std::uint32_t tensor, std::uint64_t bytes) {
  Call* self = static_cast<Call*>(context);
  if (self->refuse_memory) return nullptr;
  self->memory_[tensor].resize(bytes);
  return self->memory_[tensor].data();
}

void Call::Done(void* context, const npu_transport_status* status,
                const npu_transport_result* results) {
  Call* self = static_cast<Call*>(context);
  std::lock_guard<std::mutex> lock(self->mutex_);
  if (++self->done_count_ > 1) std::abort();  // a broken transport: nothing else can be believed
  self->status_ = ToStatus(*status);
  self->results_.assign(self->tensors.size(), npu_transport_result());
  if (results != nullptr && self->collective != Collective::kSend) {
    self->results_.assign(results, results + self->tensors.size());
  }
  self->done_ = true;
  self->changed_.notify_all();
}

const Status& Call::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  return status_;
}

bool Call::is_done() {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

void Call::Release() {
  for (std::size_t t = 0; t < results_.size(); ++t) Release(t);
}

void Call::Release(std::size_t tensor) {
  npu_transport_result& result = results_[tensor];
  if (result.release != nullptr) result.release(result.release_context);
  result = npu_transport_result();
}

void Group::Cancel(std::uint64_t match_id, const Status& reason) const {
  npu_transport_status status = {};
  CopyStatus(reason, &status);
  interface_.cancel(handle_, match_id, &status);
}

Rank::Rank(SharedWorld* world, const WorldOptions& options, int index,
           const npu_transport_interface_v1& interface)
    : shared_(world),
      options_(options),
      index_(index),
      interface_(interface),
      services_(world->Services()) {}

Rank::~Rank() { Close(); }

Status Rank::Open() {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(options_.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  npu_transport_world world = {};
  world.struct_size = sizeof(world);
  world.rank = index_;
  world.size = options_.size;
  world.host_ranks = ranks.data();
  world.host_size = options_.size;
  world.host_rank = index_;
  world.slot_count = options_.slot_count;
  world.idle_buffer_bytes = options_.idle_buffer_bytes;
  world.memory_limit_bytes = options_.memory_limit_bytes;
  npu_transport_status status = {};
  interface_.open(&world, &services_, &transport_, &status);
  if (status.code != 0) return ToStatus(status);
  world_group_ = MakeGroup(ranks);
  return world_group_ != nullptr ? Status::Ok() : Internal("no group of all ranks");
}

void Rank::Close() {
  world_group_.reset();
  if (transport_ != nullptr) interface_.close(transport_);
  transport_ = nullptr;
}

std::unique_ptr<Group> Rank::MakeGroup(const std::vector<std::int32_t>& ranks) {
  npu_transport_group description = {};
  description.struct_size = sizeof(description);
  description.name = "conformance_group";
  description.ranks = ranks.data();
  description.size = static_cast<std::int32_t>(ranks.size());
  description.rank = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    description.identity = description.identity * 64 + static_cast<std::uint64_t>(ranks[i]) + 1;
    if (ranks[i] == index_) description.rank = static_cast<std::int32_t>(i);
  }
  void* handle = nullptr;
  npu_transport_status status = {};
  interface_.create_group(transport_, &description, &handle, &status);
  if (!ExpectOk(ToStatus(status), "create_group")) return nullptr;
  return std::make_unique<Group>(interface_, handle, description.rank, description.size);
}

void Rank::Fail(const std::string& text) {
  failures_.push_back("rank " + std::to_string(index_) + " of " + std::to_string(size()) + ": " +
                      text);
}

bool Rank::ExpectOk(const Status& status, const std::string& what) {
  if (!status.ok()) Fail(what + ": " + status.message());
  return status.ok();
}

std::int64_t Rank::Counter(const std::string& name) {
  std::string text(interface_.describe(transport_, nullptr, 0) + 64, '\0');
  interface_.describe(transport_, &text[0], text.size());
  const std::string line = "\n" + name + "=";
  const std::size_t found = ("\n" + text).find(line);
  if (found == std::string::npos) return -1;
  return std::strtoll(text.c_str() + found + line.size() - 1, nullptr, 10);
}

}  // namespace conformance
}  // namespace npu_bridge
