#include "csrc/comm/group_table.h"

#include <algorithm>

#include "csrc/comm/hash.h"
#include "csrc/comm/world.h"

namespace npu_bridge {
namespace comm {
namespace {

constexpr std::size_t kMaxNameBytes = 127;

std::shared_ptr<const Group> MakeGroup(const std::string& name,
                                       const std::vector<std::int32_t>& ranks,
                                       std::int32_t rank_in_group) {
  auto group = std::make_shared<Group>();
  group->name = name;
  group->ranks = ranks;
  group->rank = rank_in_group;
  group->identity = GroupIdentity(name, ranks);
  return group;
}

}  // namespace

void GroupTable::Reset(std::int32_t world_rank, std::int32_t world_size) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(world_size));
  for (std::int32_t i = 0; i < world_size; ++i) ranks[static_cast<std::size_t>(i)] = i;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!groups_.empty() && world_rank_ == world_rank && world_size_ == world_size) return;
  world_rank_ = world_rank;
  world_size_ = world_size;
  groups_.clear();
  groups_[kWorldGroup] = MakeGroup(kWorldGroup, ranks, world_rank);
}

void GroupTable::Clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  groups_.clear();
}

Status GroupTable::Create(const std::string& name, const std::vector<std::int32_t>& ranks) {
  const std::string what = "create_group '" + name + "': ";
  if (name.empty() || name.size() > kMaxNameBytes) {
    return InvalidArgument(what + "a group name has 1 to 127 bytes, this one has " +
                           std::to_string(name.size()) + ".");
  }
  if (ranks.empty()) return InvalidArgument(what + "the list of ranks is empty.");
  std::lock_guard<std::mutex> lock(mutex_);
  if (groups_.count(name) != 0) {
    return AlreadyExists(what +
                         "a group of that name exists. Destroy it first or take another "
                         "name. Known groups: " +
                         KnownNamesLocked() + ".");
  }
  std::vector<bool> seen(static_cast<std::size_t>(world_size_), false);
  for (std::int32_t rank : ranks) {
    if (rank < 0 || rank >= world_size_) {
      return InvalidArgument(what + "rank " + std::to_string(rank) + " is outside the world of " +
                             std::to_string(world_size_) + " ranks.");
    }
    if (seen[static_cast<std::size_t>(rank)]) {
      return InvalidArgument(what + "rank " + std::to_string(rank) + " is listed twice.");
    }
    seen[static_cast<std::size_t>(rank)] = true;
  }
  const auto own = std::find(ranks.begin(), ranks.end(), world_rank_);
  if (own == ranks.end()) {
    return InvalidArgument(what + "this rank (" + std::to_string(world_rank_) +
                           ") is not among its members. Only members create a group.");
  }
  groups_[name] = MakeGroup(name, ranks, static_cast<std::int32_t>(own - ranks.begin()));
  return Status::Ok();
}

Status GroupTable::Destroy(const std::string& name, std::shared_ptr<const Group>* destroyed) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (name == kWorldGroup) {
    return InvalidArgument(std::string("destroy_group: ") + kWorldGroup +
                           " lives as long as the job and cannot be destroyed.");
  }
  const auto found = groups_.find(name);
  if (found == groups_.end()) {
    return NotFound("destroy_group: no group '" + name + "'. Known groups: " + KnownNamesLocked() +
                    ".");
  }
  *destroyed = found->second;
  groups_.erase(found);
  return Status::Ok();
}

Status GroupTable::Find(const std::string& name, std::shared_ptr<const Group>* group) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = groups_.find(name);
  if (found == groups_.end()) {
    return NotFound("no group '" + name + "' that this rank (" + std::to_string(world_rank_) +
                    ") is in. Known groups: " + KnownNamesLocked() +
                    ". Create it with create_group on each of its members first.");
  }
  *group = found->second;
  return Status::Ok();
}

std::vector<std::string> GroupTable::Names() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> names;
  for (const auto& entry : groups_) names.push_back(entry.first);
  return names;
}

std::string GroupTable::KnownNamesLocked() const {
  constexpr std::size_t kMostListed = 20;
  std::string text;
  std::size_t listed = 0;
  for (const auto& entry : groups_) {
    if (listed == kMostListed) {
      text += " and " + std::to_string(groups_.size() - listed) + " more";
      break;
    }
    if (listed++ > 0) text += ", ";
    text += entry.first;
  }
  return text.empty() ? "none" : text;
}

}  // namespace comm
}  // namespace npu_bridge
