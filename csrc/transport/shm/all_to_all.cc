// alltoallv: every rank says where it wants its bytes, and the senders write them there.
#include <cstring>
#include <memory>
#include <vector>

#include "csrc/common/memory_copy.h"
#include "csrc/transport/shm/operation.h"
#include "csrc/transport/shm/receive_plan.h"

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::uint32_t kReadyToReceive = 1;
constexpr std::uint32_t kSent = 2;

class AllToAll : public Operation {
 public:
  AllToAll(const GroupContext& group, const npu_transport_request& request)
      : Operation(group, request), plan_(request, group.size()) {}

 protected:
  // Once published, the block goes with the operation's record.
  void LetGo() override {
    if (!published_ && block_ != kNoBlock) pool().Drop(block_, kOperationBit);
  }

  bool Prepare(Joining*) override { return group().size() > 1; }

  Progress Step() override {
    if (!prepared_) {
      Status status = PrepareBlock();
      if (status.ok()) status = SendTo(group().rank, block_);
      if (!status.ok()) return Fail(status);
      prepared_ = true;
      if (group().size() == 1) return TakeResults();
      published_ = true;
      ReachTogether(kReadyToReceive, block_);
    }
    if (!sent_) {
      if (!AllHaveReached(kReadyToReceive)) return Progress::kWaiting;
      // Each rank begins with its neighbour, so that not all write to the same one.
      for (std::int32_t step = 1; step < group().size(); ++step) {
        const std::int32_t peer = (group().rank + step) % group().size();
        const Status status = SendTo(peer, StateOf(peer).block);
        if (!status.ok()) return Fail(status);
      }
      sent_ = true;
      ReachTogether(kSent, block_);
    }
    return AllHaveReached(kSent) ? TakeResults() : Progress::kWaiting;
  }

 private:
  Status PrepareBlock() {
    if (plan_.block_bytes == 0) return Status::Ok();
    Status status = pool().Allocate(plan_.block_bytes, &block_);
    if (!status.ok()) return status;
    char* data = pool().Data(block_);
    std::memcpy(data, plan_.write_offsets.data(),
                plan_.write_offsets.size() * sizeof(std::uint64_t));
    for (const ByteRange& gap : plan_.gaps) {
      status = pool().PrepareWrite(block_, gap.begin, gap.end - gap.begin);
      if (!status.ok()) return status;
      std::memset(data + gap.begin, 0, gap.end - gap.begin);
    }
    return Status::Ok();
  }

  // This rank's part for `peer`, into the block where that one receives.
  Status SendTo(std::int32_t peer, std::uint32_t block) {
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      const std::uint64_t element = tensor(t).element_size;
      const auto count = static_cast<std::uint64_t>(tensor(t).send_counts[peer]);
      const auto place = static_cast<std::uint64_t>(tensor(t).send_displacements[peer]);
      if (count == 0) continue;
      const std::uint64_t entry = std::uint64_t{t} * static_cast<std::uint64_t>(group().size()) +
                                  static_cast<std::uint64_t>(group().rank);
      std::uint64_t offset = 0;
      if (!pool().Contains(block, entry * sizeof(offset), sizeof(offset))) {
        return Internal("shared memory is damaged: rank " + std::to_string(peer) + " of group " +
                        group().name + " names no block to receive in");
      }
      std::memcpy(&offset, pool().Data(block) + entry * sizeof(offset), sizeof(offset));
      const std::uint64_t bytes = count * element;
      const Status prepared = pool().PrepareWrite(block, offset, bytes);
      if (!prepared.ok()) return prepared;
      const char* source = static_cast<const char*>(tensor(t).input) + place * element;
      if (bytes >= kStreamingBytes) {
        StreamingCopy(pool().Data(block) + offset, source, bytes);
      } else {
        std::memcpy(pool().Data(block) + offset, source, bytes);
      }
    }
    return Status::Ok();
  }

  Progress TakeResults() {
    if (plan_.block_bytes == 0) return Progress::kDone;
    if (plan_.is_staged) {
      const Status status = CopyStaged();
      if (!status.ok()) return Fail(status);
    }
    std::uint64_t bytes = 0;
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) bytes += ResultBytes(t);
    if (bytes <= kInlineBytes) return CopyResultsFrom(pool().Data(block_), plan_.result_offsets);
    return ResultsInBlock(block_, plan_.result_offsets, plan_.result_end);
  }

  // The highest rank's bytes stand.
  Status CopyStaged() {
    const auto size = static_cast<std::size_t>(group().size());
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      for (std::size_t sender = 0; sender < size; ++sender) {
        const std::size_t entry = t * size + sender;
        const std::uint64_t bytes =
            static_cast<std::uint64_t>(tensor(t).receive_counts[sender]) * tensor(t).element_size;
        if (bytes == 0) continue;
        const Status prepared = pool().PrepareWrite(block_, plan_.final_offsets[entry], bytes);
        if (!prepared.ok()) return prepared;
        char* data = pool().Data(block_);
        std::memcpy(data + plan_.final_offsets[entry], data + plan_.write_offsets[entry], bytes);
      }
    }
    return Status::Ok();
  }

  const ReceivePlan plan_;
  std::uint32_t block_ = kNoBlock;
  bool prepared_ = false;
  bool published_ = false;
  bool sent_ = false;
};

}  // namespace

std::unique_ptr<Operation> MakeAllToAll(const GroupContext& group,
                                        const npu_transport_request& request) {
  return std::make_unique<AllToAll>(group, request);
}

}  // namespace shm
}  // namespace npu_bridge
