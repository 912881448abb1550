// A call together with what it must give: made on every rank from the same description.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_PLAN_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/transport/conformance/rank.h"
#include "csrc/transport/conformance/reference.h"

namespace npu_bridge {
namespace conformance {

// Equal on all ranks of the group. For reduce_scatter a tensor's count is that of the result, for
// all-to-all the counts follow from it.
struct Description {
  Collective collective = Collective::kAllReduce;
  Reduction reduction = Reduction::kSum;
  std::vector<DataType> types;
  std::vector<std::uint64_t> counts;
  std::int32_t root = 0;
  std::int32_t peer_shift = 1;  // send, receive: rank r sends to (r + shift) % size
  std::uint64_t number = 1;     // of the call in the case: match_id, slot and input follow from it
  bool has_overlaps = false;    // all-to-all: receive blocks overlap
  bool has_gaps = false;        // all-to-all: elements that nobody writes

  std::string Name() const;
};

// One rank's call of a description.
class PlannedCall {
 public:
  PlannedCall(const Description& description, std::int32_t rank, std::int32_t size);

  void Start(const Group& group) { call_.Start(group); }
  Call& call() { return call_; }
  // Waits and compares. Notes on `rank` what is wrong.
  void Check(Rank& rank);
  // Compares only.
  void CheckResults(Rank& rank);
  const Description& description() const { return description_; }

 private:
  void PlanTensor(std::size_t t, std::int32_t rank, std::int32_t size);
  void PlanAllToAll(std::size_t t, std::int32_t rank, std::int32_t size, CallTensor* tensor);
  Bytes Input(std::size_t t, std::int32_t rank, std::uint64_t count, std::uint64_t begin = 0) const;

  const Description description_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> expected_;
  Call call_;
};

// Starts every description on its rank, `order_seed` shuffling the order, and checks all.
void RunAll(Rank& rank, const Group& group, const std::vector<Description>& descriptions,
            std::uint64_t order_seed);

}  // namespace conformance
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_PLAN_H_
