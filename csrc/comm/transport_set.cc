#include "csrc/comm/transport_set.h"

#include <algorithm>
#include <cstring>

#include "csrc/comm/messages.h"
#include "csrc/comm/table_layout.h"
#include "csrc/common/log.h"
#include "csrc/transport/c_boundary.h"
#include "csrc/transport/registry.h"

namespace npu_bridge {
namespace comm {

Status TransportSet::Open(const Settings& settings,
                          const std::shared_ptr<control::HostChannel>& channel, bool in_process,
                          std::shared_ptr<TransportSet>* transports) {
  std::shared_ptr<TransportSet> set(new TransportSet);
  if (channel->membership().size > 1) {
    std::string name = settings.transport;
    if (name.empty() || name == "auto") name = in_process ? "loopback" : "shm";
    Status status = set->OpenOne(name, settings, channel);
    if (!status.ok()) return status;
  }
  *transports = std::move(set);
  return Status::Ok();
}

Status TransportSet::OpenOne(const std::string& name, const Settings& settings,
                             const std::shared_ptr<control::HostChannel>& channel) {
  std::unique_ptr<Opened> opened(new Opened);
  Status status = FindTransport(name, &opened->functions);
  if (!status.ok()) return status;
  opened->channel = channel;
  opened->services.struct_size = sizeof(opened->services);
  opened->services.context = opened.get();
  opened->services.share_segment = &ShareSegment;
  opened->services.rank_is_alive = &RankIsAlive;
  opened->services.log = &Log;

  const control::HostMembership& membership = channel->membership();
  npu_transport_world world;
  std::memset(&world, 0, sizeof(world));
  world.struct_size = sizeof(world);
  world.rank = membership.rank;
  world.size = membership.size;
  world.host_ranks = membership.host_ranks.data();
  world.host_size = static_cast<std::int32_t>(membership.host_ranks.size());
  world.host_rank = membership.host_rank;
  world.slot_count = kCellCount;
  world.idle_buffer_bytes = static_cast<std::uint64_t>(settings.buffer_size_mb) << 20;
  world.memory_limit_bytes = static_cast<std::uint64_t>(settings.pool_limit_mb) << 20;
  npu_transport_status transport_status;
  std::memset(&transport_status, 0, sizeof(transport_status));
  opened->functions->open(&world, &opened->services, &opened->handle, &transport_status);
  status = ToStatus(transport_status);
  if (!status.ok()) {
    return Status(status.code(), "Transport " + name + " does not start on rank " +
                                     std::to_string(membership.rank) + ": " + status.message());
  }
  opened_.push_back(std::move(opened));
  return Status::Ok();
}

TransportSet::~TransportSet() {
  for (const auto& opened : opened_) opened->functions->close(opened->handle);
}

int TransportSet::ShareSegment(void* context, const char* name, std::uint64_t bytes,
                               npu_transport_status* status) {
  const auto* opened = static_cast<Opened*>(context);
  int descriptor = -1;
  // The transport's name keeps its segments apart from those of others.
  const Status result = opened->channel->ShareSegment(
      std::string(opened->functions->name) + "." + name, bytes, &descriptor);
  CopyStatus(result, status);
  return result.ok() ? descriptor : -1;
}

int TransportSet::RankIsAlive(void* context, std::int32_t world_rank) {
  return static_cast<Opened*>(context)->channel->state(world_rank) == control::RankState::kAlive;
}

void TransportSet::Log(void* context, std::int32_t severity, const char* text) {
  const auto* opened = static_cast<Opened*>(context);
  WriteLogLine(static_cast<LogSeverity>(severity),
               std::string(opened->functions->name) + ": " + text);
}

void TransportSet::RankGone(std::int32_t world_rank) {
  for (const auto& opened : opened_) opened->functions->rank_gone(opened->handle, world_rank);
}

std::string TransportSet::Describe() {
  std::string text;
  for (const auto& opened : opened_) {
    std::string lines(4096, '\0');
    const std::size_t needed = opened->functions->describe(opened->handle, &lines[0], lines.size());
    if (needed >= lines.size()) {
      lines.resize(needed + 1);
      opened->functions->describe(opened->handle, &lines[0], lines.size());
    }
    text += "transport=" + std::string(opened->functions->name) + "\n" + lines.c_str();
    if (text.back() != '\n') text += '\n';
  }
  return text;
}

GroupBinding::GroupBinding(std::shared_ptr<const Group> group,
                           std::shared_ptr<TransportSet> transports)
    : group_(std::move(group)),
      transports_(std::move(transports)),
      groups_(transports_->size(), nullptr) {}

GroupBinding::~GroupBinding() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i] != nullptr) transports_->functions(i)->destroy_group(groups_[i]);
  }
}

Status GroupBinding::GroupOf(std::size_t transport, void** group) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (groups_[transport] == nullptr) {
    npu_transport_group description;
    std::memset(&description, 0, sizeof(description));
    description.struct_size = sizeof(description);
    description.name = group_->name.c_str();
    description.identity = group_->identity;
    description.ranks = group_->ranks.data();
    description.size = group_->size();
    description.rank = group_->rank;
    npu_transport_status status;
    std::memset(&status, 0, sizeof(status));
    // create_group waits for nobody and calls nothing of ours, so that holding the lock is safe.
    transports_->functions(transport)->create_group(transports_->handle(transport), &description,
                                                    &groups_[transport], &status);
    if (status.code != 0) {
      groups_[transport] = nullptr;
      return ToStatus(status);
    }
  }
  *group = groups_[transport];
  return Status::Ok();
}

Status GroupBinding::Choose(const CollectiveRequest& request, Route* route) {
  const Collective collective =
      request.collective == Collective::kAllToAllVC ? Collective::kAllToAllV : request.collective;
  std::int32_t best = 0;
  std::string reasons;
  for (std::size_t i = 0; i < transports_->size(); ++i) {
    void* group = nullptr;
    Status reason = GroupOf(i, &group);
    std::int32_t score = reason.ok() ? 100 : 0;
    DataType asked = DataType::kInvalid;
    for (const CollectiveTensor& tensor : request.tensors) {
      if (score == 0) break;
      if (tensor.type == asked) continue;
      asked = tensor.type;
      npu_transport_status status;
      std::memset(&status, 0, sizeof(status));
      score = std::min(score, transports_->functions(i)->score(
                                  group, static_cast<std::int32_t>(collective),
                                  static_cast<std::int32_t>(tensor.type),
                                  static_cast<std::int32_t>(request.reduction), &status));
      if (score <= 0) reason = ToStatus(status);
    }
    if (score > best) {
      best = score;
      route->functions = transports_->functions(i);
      route->group = group;
    } else if (score <= 0) {
      reasons += (reasons.empty() ? "" : "; ") + std::string(transports_->functions(i)->name) +
                 ": " + (reason.message().empty() ? "does not support it" : reason.message());
    }
  }
  if (best > 0) return Status::Ok();
  return Unimplemented(DescribeOp(request) + ": no transport here serves it (" +
                       (reasons.empty() ? "none is open" : reasons) + ").");
}

}  // namespace comm
}  // namespace npu_bridge
