// The shared memory transport where something is scarce: errors, never signals.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/transport/conformance/plan.h"
#include "csrc/transport/conformance/rank.h"
#include "csrc/transport/registry.h"

namespace npu_bridge {
namespace conformance {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const npu_transport_interface_v1& Shm() {
  const npu_transport_interface_v1* found = nullptr;
  EXPECT_TRUE(FindTransport("shm", &found).ok());
  return *found;
}

// What a process that has changed its own limits says.
std::string FromChild(const std::function<std::string()>& body) {
  int ends[2];
  EXPECT_EQ(0, pipe(ends));
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = body();
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t length; (length = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(length));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(0, status) << "the process did not end well";
  return text;
}

std::string OpenError(int size) {
  SharedWorld shared(size);
  WorldOptions options;
  options.size = size;
  Rank rank(&shared, options, 0, Shm());
  return rank.Open().message();
}

std::string OpenErrorUnder(int resource, rlim_t limit) {
  return FromChild([=] {
    const rlimit limits = {limit, limit};
    if (setrlimit(resource, &limits) != 0) return std::string("setrlimit failed");
    return OpenError(1);
  });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ShmLimitsTest, TooLittleAddressSpaceIsAnErrorThatNamesTheLimit) {
  const std::string error = OpenErrorUnder(RLIMIT_AS, 4096 * kMiB);
  EXPECT_TRUE(Has(error, "ulimit -v")) << error;
  EXPECT_TRUE(Has(error, "address space")) << error;
}
#endif

TEST(ShmLimitsTest, ALimitOnFileSizesIsAnErrorAndNoSignal) {
  const std::string error = OpenErrorUnder(RLIMIT_FSIZE, 16 * kMiB);
  EXPECT_TRUE(Has(error, "ulimit -f")) << error;
}

TEST(ShmLimitsTest, TooManyRanksOnAHostAreRefusedWithBothNumbers) {
  const std::string error = OpenError(63);
  EXPECT_TRUE(Has(error, "at most 62 ranks")) << error;
  EXPECT_TRUE(Has(error, "63 here")) << error;
}

// A request beyond the limit fails with a text that says so (on the rank that finds it; the caller
// hands that text to the others); what fits still works.
TEST(ShmLimitsTest, ThePoolLimitFailsOneRequestAndNotTheNext) {
  WorldOptions options;
  options.size = 2;
  options.memory_limit_bytes = 6 * kMiB;
  std::atomic<int> explained{0};
  const std::vector<Collective> kinds = {Collective::kAllReduce, Collective::kAllGather,
                                         Collective::kBroadcast};
  const std::vector<std::string> failures = MakeThreadCluster("shm")->Run(options, [&](Rank& rank) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      Description description;
      description.collective = kinds[i];
      description.types = {DataType::kFloat32};
      description.counts = {8 * kMiB / 4};
      description.number = i + 1;
      PlannedCall call(description, rank.index(), rank.size());
      call.Start(rank.world());
      rank.Barrier();
      rank.world().Cancel(i + 1, Internal("another rank's text"));
      const Status& status = call.call().Wait();
      if (status.code() == StatusCode::kResourceExhausted &&
          Has(status.message(), "NPU_BRIDGE_POOL_LIMIT allows 6 MiB")) {
        ++explained;
      } else if (status.message() != "another rank's text") {
        rank.Fail(description.Name() + " ended with: " + status.message());
      }
      rank.Barrier();
      description.counts = {kMiB / 4};
      description.number = 100 + i;
      RunAll(rank, rank.world(), {description}, 0);
      rank.Barrier();
    }
  });
  EXPECT_TRUE(failures.empty()) << failures.front();
  EXPECT_GE(explained.load(), static_cast<int>(kinds.size()));
}

// All-to-all: the rank whose block is too large fails; the caller cancels the other.
TEST(ShmLimitsTest, ARankThatCannotReceiveFailsAlone) {
  WorldOptions options;
  options.size = 2;
  options.memory_limit_bytes = 2 * kMiB;
  const std::vector<std::string> failures = MakeThreadCluster("shm")->Run(options, [](Rank& rank) {
    Call call;
    call.collective = Collective::kAllToAllV;
    call.match_id = 1;
    const std::vector<float> input(kMiB, 1.0f);
    const std::int64_t large = static_cast<std::int64_t>(kMiB);
    CallTensor tensor;
    tensor.input = input.data();
    tensor.input_count = kMiB;
    const std::int64_t sent = rank.index() == 1 ? large : 0;
    const std::int64_t received = rank.index() == 0 ? large : 0;
    tensor.send_counts = {rank.index() == 1 ? sent : 0, 0};
    tensor.send_displacements = {0, 0};
    tensor.receive_counts = {0, received};
    tensor.receive_displacements = {0, 0};
    tensor.result_count = static_cast<std::uint64_t>(received);
    call.tensors.push_back(tensor);
    call.Start(rank.world());
    if (rank.index() == 0 && !Has(call.Wait().message(), "NPU_BRIDGE_POOL_LIMIT")) {
      rank.Fail("ended with: " + call.Wait().message());
    }
    rank.Barrier();
    rank.world().Cancel(1, Internal("rank 0 has no memory"));
    if (call.Wait().ok()) rank.Fail("ended well");
    rank.Barrier();
    if (rank.Counter("pool_blocks_in_use") != 0) rank.Fail("a block is still in use");
    rank.Barrier();
  });
  EXPECT_TRUE(failures.empty()) << failures.front();
}

}  // namespace
}  // namespace conformance
}  // namespace npu_bridge
