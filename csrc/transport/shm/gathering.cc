// allgather and broadcast: inputs are copied straight to where the result is read from.
#include <cstring>
#include <vector>

#include "csrc/common/memory_copy.h"
#include "csrc/transport/shm/operation.h"

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::uint32_t kCopied = 1;

class Gathering : public Operation {
 public:
  using Operation::Operation;

 protected:
  bool Prepare(Joining* joining) override {
    std::vector<std::uint64_t> results;
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) results.push_back(ResultBytes(t));
    result_bytes_ = LayOut(results, &offsets_);
    alone_ = group().size() == 1 || result_bytes_ == 0;
    joining->result_bytes = result_bytes_;
    return !alone_;
  }

  Progress Step() override {
    if (alone_) return ResultsAreOwnInputs();
    if (!copied_) {
      const Status status = CopyIn();
      if (!status.ok()) return Fail(status);
      copied_ = true;
      if (!IsBroadcast()) {
        ReachTogether(kCopied);
      } else if (IsRoot()) {
        Reach(group().rank, kCopied);
        RingOthers();
      }
    }
    if (IsBroadcast() ? !HasReached(request().root, kCopied) : !AllHaveReached(kCopied)) {
      return Progress::kWaiting;
    }
    if (result_bytes_ <= kInlineBytes) {
      return CopyResultsFrom(pool().Data(result_block()), offsets_);
    }
    return ResultsInBlock(result_block(), offsets_, result_bytes_);
  }

 private:
  bool IsBroadcast() const { return request().collective == NPU_COLLECTIVE_BROADCAST; }
  bool IsRoot() const { return request().root == group().rank; }

  Status CopyIn() {
    if (IsBroadcast() && !IsRoot()) return Status::Ok();
    const auto place = static_cast<std::uint64_t>(IsBroadcast() ? 0 : group().rank);
    const bool streaming = result_bytes_ >= kStreamingBytes;
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      const std::uint64_t bytes = InputBytes(t);
      if (bytes == 0) continue;
      const std::uint64_t offset = offsets_[t] + place * bytes;
      const Status prepared = pool().PrepareWrite(result_block(), offset, bytes);
      if (!prepared.ok()) return prepared;
      char* target = pool().Data(result_block()) + offset;
      if (streaming) {
        StreamingCopy(target, tensor(t).input, bytes);
      } else {
        std::memcpy(target, tensor(t).input, bytes);
      }
    }
    return Status::Ok();
  }

  std::vector<std::uint64_t> offsets_;
  std::uint64_t result_bytes_ = 0;
  bool alone_ = false;
  bool copied_ = false;
};

}  // namespace

std::unique_ptr<Operation> MakeGathering(const GroupContext& group,
                                         const npu_transport_request& request) {
  return std::make_unique<Gathering>(group, request);
}

}  // namespace shm
}  // namespace npu_bridge
