// allreduce, reduce and reduce_scatter.
//
// Every rank copies its inputs into the work block, all but the part that it reduces itself; when
// all have, each rank reduces its part, straight into memory that the result is read from. Small
// requests skip the sharing out: each rank reduces all that it needs.
#include <algorithm>
#include <cstring>
#include <vector>

#include "csrc/common/data_type.h"
#include "csrc/common/memory_copy.h"
#include "csrc/transport/reduction/reduction.h"
#include "csrc/transport/shm/operation.h"

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::uint32_t kContributed = 1;
constexpr std::uint32_t kReduced = 2;
constexpr std::uint64_t kWorkAlignment = 4096;

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Reducing : public Operation {
 public:
  using Operation::Operation;

 protected:
  void LetGo() override {
    if (own_block_ != kNoBlock) pool().Drop(own_block_, kOperationBit);
  }

  bool Prepare(Joining* joining) override {
    std::vector<std::uint64_t> inputs;
    std::vector<std::uint64_t> results;
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      inputs.push_back(InputBytes(t));
      results.push_back(ResultBytes(t));
    }
    input_bytes_ = LayOut(inputs, &input_offsets_);
    result_bytes_ = LayOut(results, &result_offsets_);
    is_small_ = input_bytes_ <= kInlineBytes;
    alone_ = group().size() == 1 || input_bytes_ == 0;
    if (alone_) return false;
    stride_ = std::min(input_bytes_, ~std::uint64_t{0} - kWorkAlignment);
    stride_ = (stride_ + kWorkAlignment - 1) / kWorkAlignment * kWorkAlignment;
    joining->work_bytes = SaturatedProduct(stride_, static_cast<std::uint64_t>(group().size()));
    if (!is_small_ && !IsScatter()) joining->result_bytes = result_bytes_;
    return true;
  }

  Progress Step() override {
    if (alone_) return ResultsAreOwnInputs();
    if (!contributed_) {
      const Status status = Contribute();
      if (!status.ok()) return Fail(status);
      contributed_ = true;
      ReachTogether(kContributed);
      if (IsReduce() && !IsRoot() && is_small_) return ResultsAreOwnInputs();
    }
    if (!reduced_) {
      if (!AllHaveReached(kContributed)) return Progress::kWaiting;
      if (is_small_ || IsScatter()) return ReduceForMyself();
      const Status status = ReduceMyPart();
      if (!status.ok()) return Fail(status);
      reduced_ = true;
      ReachTogether(kReduced);
      if (IsReduce() && !IsRoot()) return ResultsAreOwnInputs();
    }
    if (!AllHaveReached(kReduced)) return Progress::kWaiting;
    return ResultsInBlock(result_block(), result_offsets_, result_bytes_);
  }

 private:
  bool IsScatter() const { return request().collective == NPU_COLLECTIVE_REDUCE_SCATTER; }
  bool IsReduce() const { return request().collective == NPU_COLLECTIVE_REDUCE; }
  bool IsRoot() const { return request().root == group().rank; }

  // Bytes of tensor `t` that this rank reduces, from the tensor's begin.
  Range MyPart(std::uint32_t t) const {
    const auto rank = static_cast<std::uint64_t>(group().rank);
    if (IsScatter()) return {rank * ResultBytes(t), (rank + 1) * ResultBytes(t)};
    if (is_small_) return {0, IsReduce() && !IsRoot() ? 0 : InputBytes(t)};
    // Cache lines of all tensors together, in equal shares: no two ranks write the same line.
    const std::uint64_t lines = input_bytes_ / kCacheLine;
    const auto size = static_cast<std::uint64_t>(group().size());
    const std::uint64_t begin = lines * rank / size * kCacheLine;
    const std::uint64_t end = lines * (rank + 1) / size * kCacheLine;
    const std::uint64_t offset = input_offsets_[t];
    auto within = [&](std::uint64_t position) {
      return std::min(position - std::min(position, offset), InputBytes(t));
    };
    return {within(begin), within(end)};
  }

  // What no other rank reads need not be copied.
  Range NotContributed(std::uint32_t t) const {
    if (IsScatter() || !is_small_) return MyPart(t);
    return IsReduce() ? MyPart(t) : Range();
  }

  Status Contribute() {
    const std::uint64_t base = stride_ * static_cast<std::uint64_t>(group().rank);
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      const Range kept = NotContributed(t);
      for (const Range part : {Range{0, kept.begin}, Range{kept.end, InputBytes(t)}}) {
        if (part.begin >= part.end) continue;
        const std::uint64_t offset = base + input_offsets_[t] + part.begin;
        const std::uint64_t bytes = part.end - part.begin;
        const Status prepared = pool().PrepareWrite(work_block(), offset, bytes);
        if (!prepared.ok()) return prepared;
        std::memcpy(pool().Data(work_block()) + offset,
                    static_cast<const char*>(tensor(t).input) + part.begin, bytes);
      }
    }
    return Status::Ok();
  }

  Status ReduceInto(std::uint32_t t, Range part, char* output) {
    const std::uint64_t element = tensor(t).element_size;
    std::vector<const void*> sources;
    for (std::int32_t rank = 0; rank < group().size(); ++rank) {
      const char* source = rank == group().rank
                               ? static_cast<const char*>(tensor(t).input)
                               : pool().Data(work_block()) +
                                     stride_ * static_cast<std::uint64_t>(rank) + input_offsets_[t];
      sources.push_back(source + part.begin);
    }
    if (!Reduce(static_cast<DataType>(tensor(t).data_type),
                static_cast<Reduction>(request().reduction), sources.data(), group().size(),
                (part.end - part.begin) / element, output, result_bytes_ >= kStreamingBytes)) {
      return Unimplemented(std::string("the transport 'shm' cannot reduce ") +
                           DataTypeName(static_cast<DataType>(tensor(t).data_type)));
    }
    return Status::Ok();
  }

  Status ReduceMyPart() {
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      const Range part = MyPart(t);
      if (part.begin >= part.end) continue;
      const std::uint64_t offset = result_offsets_[t] + part.begin;
      Status status = pool().PrepareWrite(result_block(), offset, part.end - part.begin);
      if (!status.ok()) return status;
      status = ReduceInto(t, part, pool().Data(result_block()) + offset);
      if (!status.ok()) return status;
    }
    return Status::Ok();
  }

  // Into memory that no other rank reads.
  Progress ReduceForMyself() {
    const bool in_block = result_bytes_ > kInlineBytes;
    if (in_block) {
      Status status = pool().Allocate(result_bytes_, &own_block_);
      if (status.ok()) status = pool().PrepareWrite(own_block_, 0, result_bytes_);
      if (!status.ok()) return Fail(status);
    }
    for (std::uint32_t t = 0; t < request().tensor_count; ++t) {
      if (ResultBytes(t) == 0) continue;
      char* output = in_block ? pool().Data(own_block_) + result_offsets_[t] : AllocateResult(t);
      if (output == nullptr) return Progress::kFailed;
      const Status status = ReduceInto(t, MyPart(t), output);
      if (!status.ok()) return Fail(status);
    }
    return in_block ? ResultsInBlock(own_block_, result_offsets_, result_bytes_) : Progress::kDone;
  }

  std::vector<std::uint64_t> input_offsets_;
  std::vector<std::uint64_t> result_offsets_;
  std::uint64_t input_bytes_ = 0;
  std::uint64_t result_bytes_ = 0;
  std::uint64_t stride_ = 0;  // of the ranks' inputs in the work block
  std::uint32_t own_block_ = kNoBlock;
  bool alone_ = false;
  bool is_small_ = false;
  bool contributed_ = false;
  bool reduced_ = false;
};

}  // namespace

std::unique_ptr<Operation> MakeReducing(const GroupContext& group,
                                        const npu_transport_request& request) {
  return std::make_unique<Reducing>(group, request);
}

}  // namespace shm
}  // namespace npu_bridge
