// The groups that this rank knows. Local knowledge: nothing is sent.
#ifndef NPU_BRIDGE_CSRC_COMM_GROUP_TABLE_H_
#define NPU_BRIDGE_CSRC_COMM_GROUP_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/common/status.h"

namespace npu_bridge {
namespace comm {

// Never changes once made; requests in flight keep the group that they were made in.
struct Group {
  std::string name;
  std::vector<std::int32_t> ranks;  // world ranks in group order
  std::int32_t rank = 0;            // this rank's place in `ranks`
  std::uint64_t identity = 0;

  std::int32_t size() const { return static_cast<std::int32_t>(ranks.size()); }
};

class GroupTable {
 public:
  // Makes hccl_world_group; in a world of another rank or size, other groups are forgotten.
  void Reset(std::int32_t world_rank, std::int32_t world_size);
  // Forgets all groups.
  void Clear();

  Status Create(const std::string& name, const std::vector<std::int32_t>& ranks);
  Status Destroy(const std::string& name, std::shared_ptr<const Group>* destroyed);
  // NotFound, naming the groups that exist.
  Status Find(const std::string& name, std::shared_ptr<const Group>* group) const;
  std::vector<std::string> Names() const;

 private:
  std::string KnownNamesLocked() const;

  mutable std::mutex mutex_;
  std::int32_t world_rank_ = 0;
  std::int32_t world_size_ = 0;
  std::map<std::string, std::shared_ptr<const Group>> groups_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_GROUP_TABLE_H_
