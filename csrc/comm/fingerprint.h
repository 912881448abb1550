// What the ranks of a collective must agree on, as bytes in shared memory, and the comparison that
// comes before any data moves.
#ifndef NPU_BRIDGE_CSRC_COMM_FINGERPRINT_H_
#define NPU_BRIDGE_CSRC_COMM_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/comm/group_table.h"
#include "csrc/common/collective_request.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace comm {

struct Fingerprint {
  struct Tensor {
    DataType type = DataType::kInvalid;
    std::vector<std::int64_t> shape;
    std::string name;  // empty: the rank knows none, or does not have names compared
  };

  Collective collective = Collective::kAllReduce;
  std::string node_name;
  std::string tag;
  std::int32_t peer = 0;
  std::int64_t send_receive_tag = 0;
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> receive_counts;
  // Shapes are part of the agreement in all ops but the all-to-alls.
  Reduction reduction = Reduction::kNone;
  std::int32_t root = 0;
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::int64_t>> count_matrices;
  std::vector<std::int64_t> absent_entries;
  // Ops of the program that run as this one, if it is fused: what ranks agree on, and how many
  // tensors each has.
  struct Member {
    std::string tag;
    std::int64_t tensors = 0;
    bool operator==(const Member& other) const {
      return tag == other.tag && tensors == other.tensors;
    }
    bool operator!=(const Member& other) const { return !(*this == other); }
  };
  std::vector<Member> members;

  // "HcomAllReduce 'grad' float32 [10]"
  std::string Describe() const;
};

// The part that is equal, byte for byte, on ranks that pass the same, which need it in shared
// memory only once and need no comparison. Where it differs, Compare... says whether that is a
// mismatch: a rank may know no names of tensors.
std::string EncodeAgreement(const CollectiveRequest& request);
// The part that may differ between ranks that agree: the op's names, counts to and from each rank.
std::string EncodeOwn(const CollectiveRequest& request);

// Bytes come from other processes: false when they are not what an Encode function wrote.
bool Decode(const std::string& agreement, const std::string& own, Fingerprint* fingerprint);

// Ok when the ranks agree; else InvalidArgument with a text that names both sides. `members` has
// one entry a rank of the group (collectives) or source and destination (point to point).
Status CompareCollective(const Group& group, const std::vector<Fingerprint>& members);
Status ComparePointToPoint(const Group& group, const Fingerprint& send, const Fingerprint& receive);

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_FINGERPRINT_H_
