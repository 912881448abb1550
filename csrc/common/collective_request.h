// One collective as a kernel hands it to comm. Plain data: no TensorFlow, no backend. C++14.
#ifndef NPU_BRIDGE_CSRC_COMMON_COLLECTIVE_REQUEST_H_
#define NPU_BRIDGE_CSRC_COMMON_COLLECTIVE_REQUEST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"
#include "csrc/common/status.h"

namespace npu_bridge {

// One tensor of a request. A fused request, or a broadcast of a list, has several.
struct CollectiveTensor {
  DataType type = DataType::kInvalid;
  std::vector<std::int64_t> shape;  // of the input; of the expected result for kReceive
  std::int64_t count = 0;           // elements in shape; Submit refuses a product beyond int64
  const void* input = nullptr;      // readable until the callback runs; may be null when empty
  // What the program calls it. Ranks must agree on it where they know one; empty: not compared.
  std::string name;
};

// What comm hands back for one tensor of the request.
struct CollectiveResult {
  // The caller's own memory (what `allocate` returned), or memory of the transport.
  void* data = nullptr;
  std::int64_t count = 0;
  // Set when the memory is the transport's: the receiver calls it once, from any thread, when it
  // needs the memory no more. The memory is shared with other ranks' results: writes stay private.
  std::function<void()> release;
};

// One of the ops that run as one request.
struct FusedMember {
  std::string tag;   // what ranks must agree on
  std::string name;  // for people
  std::int64_t tensors = 0;
};

struct CollectiveRequest {
  Collective collective = Collective::kAllReduce;
  Reduction reduction = Reduction::kNone;
  std::string group;

  // Names for people: the op's node name as TensorFlow reports it.
  std::string node_name;

  // What pairs this request with its peers' (with the group's identity).
  std::string tag;
  std::uint64_t frame_id = 0;
  std::int64_t iteration = 0;
  std::uint64_t step = 0;

  std::int32_t root_rank = 0;  // kBroadcast, kReduce: rank in the group
  std::int32_t peer_rank = 0;  // kSend: destination, kReceive: source, ranks in the group
  std::int64_t send_receive_tag = 0;
  std::int64_t rank_size = -1;  // attribute of kAllGather, kReduceScatter; must equal the group's
  std::int64_t claimed_rank = -1;  // attribute `rank` of kAllToAllVC; must equal the group rank

  std::vector<CollectiveTensor> tensors;
  // In the order of their tensors; none when the request is one op of the program.
  std::vector<FusedMember> members;

  // Where the op reduces an entry of a list: the positions in it that hold nothing on this rank.
  std::vector<std::int64_t> absent_entries;

  // kAllToAllV: elements, one entry a rank of the group.
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> send_displacements;
  std::vector<std::int64_t> receive_counts;
  std::vector<std::int64_t> receive_displacements;
  // kAllToAllVC: row-major, N x N; row = sender. One matrix a tensor when fused.
  std::vector<std::vector<std::int64_t>> count_matrices;
  // Shapes of the matrices as the caller passed them, for the check that they are N x N.
  std::vector<std::vector<std::int64_t>> count_matrix_shapes;

  // A refusal that the caller found by itself (a bad attribute, a bad shape). Comm posts it under
  // the request's key, so that every rank fails with this text instead of waiting. Comm puts the
  // op, its group and this rank before it.
  Status refusal;

  // Gives memory for result `tensor` of `bytes` bytes, or nullptr when there is none. Called at
  // most once a tensor, from any thread, before the callback. Not called where the transport
  // hands out memory of its own.
  std::function<void*(std::size_t tensor, std::uint64_t bytes)> allocate;
};

// Runs exactly once, from any thread. `results` has one entry a tensor when the status is ok (none
// for kSend) and is empty otherwise.
using CollectiveCallback =
    std::function<void(const Status& status, std::vector<CollectiveResult> results)>;

// "float32 [4,8]"; with several tensors, each in turn (cut after a few).
std::string DescribeTensor(DataType type, const std::vector<std::int64_t>& shape);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_COLLECTIVE_REQUEST_H_
