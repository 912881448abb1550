// Beyond 2 GiB: bytes, elements and displacements that do not fit 32 bits.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "csrc/common/memory_available.h"
#include "csrc/transport/conformance/rank.h"
#include "csrc/transport/conformance/slow_build.h"

namespace npu_bridge {
namespace conformance {
namespace {

constexpr std::uint64_t kCount = (std::uint64_t{1} << 31) + 8;

// Only the ends are written and compared: the middle is as the kernel gives it.
class LargeBuffer {
 public:
  explicit LargeBuffer(std::uint64_t bytes) : data_(new char[bytes]), bytes_(bytes) {
    std::memset(data_.get(), 0, bytes);
  }
  char* data() { return data_.get(); }
  void MarkEnds(char value) {
    std::memset(data(), value, 16);
    std::memset(data() + bytes_ - 16, value + 1, 16);
  }

 private:
  std::unique_ptr<char[]> data_;
  const std::uint64_t bytes_;
};

void ExpectBytes(Rank& rank, const char* found, char value, const std::string& what) {
  for (int i = 0; i < 16; ++i) {
    if (found[i] != value) {
      rank.Fail(what + ": byte " + std::to_string(i) + " is " + std::to_string(found[i]) +
                ", expected " + std::to_string(value));
      return;
    }
  }
}

void RunLarge(std::uint64_t bytes_needed, const Body& body) {
  if (kIsSlowBuild) bytes_needed *= 6;  // a sanitizer's shadow of the memory
  if (AvailableMemoryBytes() < bytes_needed) {
    GTEST_SKIP() << "needs " << (bytes_needed >> 30) << " GiB of free memory";
  }
  WorldOptions options;
  options.size = 2;
  const std::vector<std::string> failures = MakeThreadCluster("shm")->Run(options, body);
  EXPECT_TRUE(failures.empty()) << failures.front();
}

CallTensor Tensor(char* input, std::uint64_t count) {
  CallTensor tensor;
  tensor.type = DataType::kInt8;
  tensor.input = input;
  tensor.input_count = tensor.result_count = count;
  return tensor;
}

TEST(ShmLargeTest, AllReduce) {
  RunLarge(std::uint64_t{11} << 30, [](Rank& rank) {
    LargeBuffer input(kCount);
    input.MarkEnds(static_cast<char>(10 + rank.index()));
    Call call;
    call.match_id = 1;
    call.tensors.push_back(Tensor(input.data(), kCount));
    call.Start(rank.world());
    if (!rank.ExpectOk(call.Wait(), "allreduce")) return;
    const char* result = static_cast<const char*>(call.data(0));
    ExpectBytes(rank, result, 21, "begin");
    ExpectBytes(rank, result + kCount - 16, 23, "end");
  });
}

TEST(ShmLargeTest, BroadcastAndAllGather) {
  RunLarge(std::uint64_t{9} << 30, [](Rank& rank) {
    {
      LargeBuffer input(rank.index() == 1 ? kCount : 16);
      if (rank.index() == 1) input.MarkEnds(30);
      Call call;
      call.collective = Collective::kBroadcast;
      call.root = 1;
      call.match_id = 1;
      call.tensors.push_back(Tensor(input.data(), kCount));
      if (rank.index() == 0) call.tensors[0].input_count = 0;
      call.Start(rank.world());
      if (rank.ExpectOk(call.Wait(), "broadcast")) {
        const char* result = static_cast<const char*>(call.data(0));
        ExpectBytes(rank, result, 30, "begin of broadcast");
        ExpectBytes(rank, result + kCount - 16, 31, "end of broadcast");
      }
    }
    rank.Barrier();
    const std::uint64_t part = std::uint64_t{1200} << 20;
    LargeBuffer input(part);
    input.MarkEnds(static_cast<char>(40 + 10 * rank.index()));
    Call call;
    call.collective = Collective::kAllGather;
    call.match_id = 2;
    call.match_slot = 1;
    call.tensors.push_back(Tensor(input.data(), part));
    call.tensors[0].result_count = 2 * part;
    call.Start(rank.world());
    if (!rank.ExpectOk(call.Wait(), "allgather")) return;
    const char* result = static_cast<const char*>(call.data(0));
    ExpectBytes(rank, result, 40, "begin of allgather");
    ExpectBytes(rank, result + part, 50, "second part of allgather");
    ExpectBytes(rank, result + 2 * part - 16, 51, "end of allgather");
  });
}

// Blocks whose displacements, in elements and in bytes, are beyond 32 bits.
TEST(ShmLargeTest, AllToAllWithLargeDisplacements) {
  RunLarge(std::uint64_t{9} << 30, [](Rank& rank) {
    LargeBuffer input(rank.index() == 0 ? kCount : 16);
    input.MarkEnds(static_cast<char>(60 + 10 * rank.index()));
    Call call;
    call.collective = Collective::kAllToAllV;
    call.match_id = 1;
    const auto far = static_cast<std::int64_t>(kCount) - 16;
    CallTensor tensor = Tensor(input.data(), rank.index() == 0 ? kCount : 16);
    tensor.send_counts = {16, 16};
    tensor.send_displacements = {0, rank.index() == 0 ? far : 0};
    tensor.receive_counts = {16, 16};
    tensor.receive_displacements = {0, rank.index() == 0 ? far : 16};
    tensor.result_count = rank.index() == 0 ? kCount : 32;
    call.tensors.push_back(tensor);
    call.Start(rank.world());
    if (!rank.ExpectOk(call.Wait(), "alltoallv")) return;
    const char* result = static_cast<const char*>(call.data(0));
    if (rank.index() == 0) {
      ExpectBytes(rank, result, 60, "from rank 0");
      ExpectBytes(rank, result + (far >> 1), 0, "gap");
      // Rank 1's short buffer holds the marks of its end only.
      ExpectBytes(rank, result + far, 71, "from rank 1");
    } else {
      ExpectBytes(rank, result, 61, "from rank 0's end");
    }
  });
}

}  // namespace
}  // namespace conformance
}  // namespace npu_bridge
