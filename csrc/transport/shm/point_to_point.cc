// send and receive. The block belongs to the receiver from the start, so the sender is done when
// its bytes are in it, and may leave.
#include <cstring>
#include <vector>

#include "csrc/common/memory_copy.h"
#include "csrc/transport/shm/operation.h"

namespace npu_bridge {
namespace shm {
namespace {

// Members are numbered anew here: a rank may send to itself.
constexpr std::int32_t kSender = 0;
constexpr std::uint32_t kCopied = 1;

class PointToPoint : public Operation {
 public:
  using Operation::Operation;

 protected:
  bool Prepare(Joining* joining) override {
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      sizes.push_back(IsSend() ? InputBytes(t) : ResultBytes(t));
    }
    bytes_ = LayOut(sizes, &offsets_);
    const std::uint64_t own = joining->own_bit;
    const std::uint64_t peer =
        RankBit(group().host_ranks[static_cast<std::size_t>(request().peer)]);
    std::uint64_t sender = IsSend() ? own : peer;
    const std::uint64_t receiver = IsSend() ? peer : own;
    if (sender == receiver) sender = kSelfSendBit;
    joining->own_bit = IsSend() ? sender : receiver;
    joining->member_bits = sender | receiver;
    joining->result_bytes = bytes_;
    return true;
  }

  Progress Step() override { return IsSend() ? Send() : Receive(); }

 private:
  bool IsSend() const { return request().collective == NPU_COLLECTIVE_SEND; }

  Progress Send() {
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      if (InputBytes(t) == 0) continue;
      const Status prepared = pool().PrepareWrite(result_block(), offsets_[t], InputBytes(t));
      if (!prepared.ok()) return Fail(prepared);
      char* target = pool().Data(result_block()) + offsets_[t];
      if (bytes_ >= kStreamingBytes) {
        StreamingCopy(target, tensor(t).input, InputBytes(t));
      } else {
        std::memcpy(target, tensor(t).input, InputBytes(t));
      }
    }
    Reach(kSender, kCopied);
    RingMember(request().peer);
    return Progress::kDone;
  }

  Progress Receive() {
    if (!HasReached(kSender, kCopied)) return Progress::kWaiting;
    if (bytes_ == 0) return Progress::kDone;
    if (bytes_ <= kInlineBytes) return CopyResultsFrom(pool().Data(result_block()), offsets_);
    return ResultsInBlock(result_block(), offsets_, bytes_);
  }

  std::vector<std::uint64_t> offsets_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Operation> MakePointToPoint(const GroupContext& group,
                                            const npu_transport_request& request) {
  return std::make_unique<PointToPoint>(group, request);
}

}  // namespace shm
}  // namespace npu_bridge
