// How a rank's part of an all-to-all lies in the block that it receives in.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_RECEIVE_PLAN_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_RECEIVE_PLAN_H_

#include <cstdint>
#include <vector>

#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace shm {

// Bytes of a block, from its begin.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The block begins with a table of uint64: where, in bytes from the block's begin, sender s writes
// tensor t, at [t * group_size + s]. Then come the results, one after another. Where blocks of a
// result overlap, senders write to a staging area behind, and the receiver copies in rank order.
struct ReceivePlan {
  ReceivePlan(const npu_transport_request& request, std::int32_t group_size);

  std::uint64_t block_bytes = 0;  // 0: nothing comes in and no result has elements
  std::uint64_t result_end = 0;
  std::vector<std::uint64_t> result_offsets;  // by tensor
  std::vector<std::uint64_t> write_offsets;   // the table
  std::vector<std::uint64_t> final_offsets;   // as the table, where the bytes end up
  std::vector<ByteRange> gaps;                // of the results: nobody writes there
  bool is_staged = false;
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_RECEIVE_PLAN_H_
