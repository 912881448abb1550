// The recurring parts of error texts, so that all of them name ops and ranks alike.
#ifndef NPU_BRIDGE_CSRC_COMM_MESSAGES_H_
#define NPU_BRIDGE_CSRC_COMM_MESSAGES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "csrc/comm/group_table.h"
#include "csrc/common/collective_request.h"

namespace npu_bridge {
namespace comm {

// "HcomAllReduce 'grad' in group hccl_world_group".
std::string DescribeOp(Collective collective, const std::string& node_name,
                       const std::string& group);
std::string DescribeOp(const CollectiveRequest& request);

// "rank 2", "ranks 0,1,3". Members are ranks in the group; in a group whose ranks are not those of
// the world these are named too: "ranks 0,1 of the group (world ranks 4,6)".
std::string DescribeRanks(const Group& group, const std::vector<std::int32_t>& members);
std::string DescribeRank(const Group& group, std::int32_t member);

// "0,1,3"; long lists are told as "0-17,19".
std::string JoinNumbers(const std::vector<std::int32_t>& numbers);

// "[4,8]"
std::string DescribeShape(const std::vector<std::int64_t>& shape);

// Groups ranks by what they passed, the fewest first: "rank 2 passed A, ranks 0,1,3 passed B".
// `values` has one entry a member; the verb stands between ranks and value.
std::string DescribeSides(const Group& group, const std::vector<std::string>& values,
                          const std::string& verb_for_one, const std::string& verb_for_several);

// "1 element", "3 elements"
std::string Count(std::int64_t count, const char* singular);

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_MESSAGES_H_
