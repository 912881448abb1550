// What one rank can see to be wrong with its own request, before anything is said to the others.
#ifndef NPU_BRIDGE_CSRC_COMM_REQUEST_CHECK_H_
#define NPU_BRIDGE_CSRC_COMM_REQUEST_CHECK_H_

#include <cstdint>
#include <vector>

#include "csrc/comm/group_table.h"
#include "csrc/common/collective_request.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace comm {

// What an all-to-all moves for one tensor, whichever way the request gave it. Elements; one entry a
// rank of the group.
struct AllToAllCounts {
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> send_displacements;
  std::vector<std::int64_t> receive_counts;
  std::vector<std::int64_t> receive_displacements;
};

// The contract is that of the ops: dtypes, ranges, sizes that fit 64 bits, counts inside their
// buffers. InvalidArgument names op, group, rank, what was passed and what is allowed. After an ok,
// nothing below reads or writes past a buffer on account of this request.
Status CheckRequest(const CollectiveRequest& request, const Group& group);

// Of tensor `index` of a checked all-to-all request (with vectors or with a matrix).
AllToAllCounts CountsOf(const CollectiveRequest& request, const Group& group, std::size_t index);

// Elements that the result of tensor `index` of a checked request has on this rank.
std::int64_t ResultCount(const CollectiveRequest& request, const Group& group, std::size_t index);

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_REQUEST_CHECK_H_
