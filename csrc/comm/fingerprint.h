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

  // "HcomAllReduce 'grad' float32 [10]"
  std::string Describe() const;
};

// The part that is equal, byte for byte, on ranks that agree. Ranks that pass the same need it in
// shared memory only once.
std::string EncodeAgreement(const CollectiveRequest& request);
// The part that may differ between ranks that agree: names, counts to and from each rank.
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
