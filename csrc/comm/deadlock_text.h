// The sentence for ranks that wait for each other in ops that cannot pair.
#ifndef NPU_BRIDGE_CSRC_COMM_DEADLOCK_TEXT_H_
#define NPU_BRIDGE_CSRC_COMM_DEADLOCK_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/comm/fingerprint.h"
#include "csrc/comm/group_table.h"

namespace npu_bridge {
namespace comm {

// What a rank waits in, and where: in which step, and in which iteration if that is in a loop.
struct Wait {
  Fingerprint op;
  std::uint64_t step = 0;
  bool in_loop = false;
  std::int64_t iteration = 0;
};
using WaitsOfRank = std::vector<Wait>;

// `by_rank` has one entry, not empty, for each rank of the group; `limit` reads "20 s".
std::string DeadlockText(const Group& group, const std::vector<WaitsOfRank>& by_rank,
                         const std::string& limit);

// Whether one tag is the other inside further scopes: 'net/grad' and 'tower/net/grad'; or both lie
// in one scope of their own: 'a/net/grad' and 'b/net/grad'.
bool DifferInOuterScope(const std::string& a, const std::string& b);

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_DEADLOCK_TEXT_H_
