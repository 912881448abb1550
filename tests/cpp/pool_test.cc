#include "csrc/transport/shm/pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "csrc/transport/conformance/shared_world.h"

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Two ranks' pools over the same memory.
class PoolTest : public testing::Test {
 protected:
  void Open(std::uint64_t idle_buffer_bytes, std::uint64_t limit_bytes) {
    const npu_transport_services services = shared_.Services();
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      const std::int32_t ranks[] = {0, 1};
      npu_transport_world world = {};
      world.rank = world.host_rank = rank;
      world.size = world.host_size = 2;
      world.host_ranks = ranks;
      world.slot_count = 128;
      std::unique_ptr<SharedMemory> memory;
      const Status status = SharedMemory::Open(world, services, &memory);
      ASSERT_TRUE(status.ok()) << status.message();
      pools_[rank] =
          std::make_shared<Pool>(std::move(memory), rank, idle_buffer_bytes, limit_bytes);
    }
  }
  Pool& pool(int rank) { return *pools_[rank]; }
  std::uint64_t Resident() { return pool(0).memory().header().resident_bytes.load(); }

  std::uint32_t MustAllocate(int rank, std::uint64_t bytes) {
    std::uint32_t block = kNoBlock;
    const Status status = pool(rank).Allocate(bytes, &block);
    EXPECT_TRUE(status.ok()) << status.message();
    return block;
  }

  // As if the blocks had been free for long.
  void MakeOld() {
    for (std::uint32_t block = 1; block <= pool(0).memory().header().block_count.load(); ++block) {
      pool(0).memory().block(block).freed_at_ms.store(0);
    }
  }

  conformance::SharedWorld shared_{2};
  std::shared_ptr<Pool> pools_[2];
};

TEST(SizeClassTest, AtMostAFifthOfABlockIsUnused) {
  for (std::uint64_t bytes = kSmallestBlock; bytes < 64 * kMiB; bytes = bytes * 17 / 16 + 1) {
    const std::uint64_t size = SizeOfClass(SizeClassFor(bytes));
    EXPECT_GE(size, bytes);
    EXPECT_LE(size - bytes, size / 5) << bytes;
  }
  EXPECT_EQ(0u, SizeClassFor(1));
  EXPECT_EQ(kSizeClassCount, SizeClassFor(~std::uint64_t{0}));
}

TEST_F(PoolTest, ABlockIsFreeWhenItsLastHolderLetsGo) {
  Open(0, 0);
  const std::uint32_t block = MustAllocate(0, kMiB);
  ASSERT_TRUE(pool(0).HoldResults(block, 2, kMiB).ok());
  ASSERT_TRUE(pool(1).HoldResults(block, 1, kMiB).ok());
  pool(0).Drop(block, kOperationBit);
  pool(1).ReleaseResult(block);
  pool(0).ReleaseResult(block);
  // Rank 0 still holds its second result.
  EXPECT_NE(block, MustAllocate(1, kMiB));
  pool(0).ReleaseResult(block);
  EXPECT_EQ(block, MustAllocate(1, kMiB));
}

TEST_F(PoolTest, AFreeBlockServesSmallerRequestsOfTheClassBelow) {
  Open(0, 0);
  const std::uint32_t block = MustAllocate(0, SizeOfClass(5));
  pool(0).Drop(block, kOperationBit);
  EXPECT_EQ(block, MustAllocate(0, SizeOfClass(4)));
}

TEST_F(PoolTest, RanksSeeEachOthersBytesThroughDataAndView) {
  Open(0, 0);
  const std::uint32_t block = MustAllocate(0, kMiB);
  std::memset(pool(0).Data(block), 7, kMiB);
  ASSERT_TRUE(pool(1).HoldResults(block, 1, kMiB).ok());
  EXPECT_EQ(7, pool(1).View(block)[kMiB - 1]);
  // A write to the view is rank 1's own, and gone with its result.
  pool(1).View(block)[100] = 42;
  EXPECT_EQ(7, pool(0).Data(block)[100]);
  pool(1).ReleaseResult(block);
  std::memset(pool(0).Data(block), 9, kMiB);
  ASSERT_TRUE(pool(1).HoldResults(block, 1, kMiB).ok());
  EXPECT_EQ(9, pool(1).View(block)[100]);
  pool(1).ReleaseResult(block);
}

TEST_F(PoolTest, TheLimitIsAnErrorThatNamesTheVariableAndTheNumbers) {
  Open(0, 4 * kMiB);
  const std::uint32_t held = MustAllocate(0, 3 * kMiB);
  std::uint32_t block = kNoBlock;
  const Status status = pool(1).Allocate(2 * kMiB, &block);
  EXPECT_EQ(StatusCode::kResourceExhausted, status.code());
  for (const char* part : {"NPU_BRIDGE_POOL_LIMIT", "needs 2 MiB", "hold 3 MiB", "allows 4 MiB"}) {
    EXPECT_NE(std::string::npos, status.message().find(part)) << status.message();
  }
  // Room for as much as the limit says, and for more when something is let go.
  const std::uint32_t last = MustAllocate(1, kMiB);
  pool(0).Drop(held, kOperationBit);
  EXPECT_NE(kNoBlock, MustAllocate(1, 2 * kMiB));
  pool(1).Drop(last, kOperationBit);
}

TEST_F(PoolTest, UnderTheLimitFreeBlocksOfOtherSizesGiveWay) {
  Open(0, 4 * kMiB);
  pool(0).Drop(MustAllocate(0, 3 * kMiB), kOperationBit);
  EXPECT_EQ(3 * kMiB, Resident());
  EXPECT_NE(kNoBlock, MustAllocate(0, 2 * kMiB));
  EXPECT_LE(Resident(), 4 * kMiB);
}

TEST_F(PoolTest, ARequestThatFitsNoAddressSpaceIsAnError) {
  Open(0, 0);
  std::uint32_t block = kNoBlock;
  EXPECT_EQ(StatusCode::kResourceExhausted,
            pool(0).Allocate(pool(0).memory().data_bytes() + 1, &block).code());
  EXPECT_EQ(StatusCode::kResourceExhausted, pool(0).Allocate(~std::uint64_t{0}, &block).code());
}

// No machine that runs this has so much; the address space has.
TEST_F(PoolTest, MoreThanTheMachineHasIsAnErrorBeforeItIsTouched) {
  Open(0, 0);
  std::uint32_t block = kNoBlock;
  const std::uint64_t bytes = pool(0).memory().data_bytes() / 2 + 1;
  const Status status = pool(0).Allocate(bytes, &block);
  if (status.ok()) GTEST_SKIP() << "this machine has more memory than it has addresses reserved";
  EXPECT_EQ(StatusCode::kResourceExhausted, status.code());
  EXPECT_NE(std::string::npos, status.message().find("available on this host")) << status.message();
  EXPECT_EQ(0u, Resident());
}

TEST_F(PoolTest, IdleMemoryIsGivenBackDownToTheBuffer) {
  Open(2 * kMiB, 0);
  std::vector<std::uint32_t> blocks;
  for (int i = 0; i < 6; ++i) {
    blocks.push_back(MustAllocate(0, kMiB));
    std::memset(pool(0).Data(blocks.back()), 1, kMiB);
  }
  for (const std::uint32_t block : blocks) pool(0).Drop(block, kOperationBit);
  // All of it has just been in use.
  pool(1).TrimIdle();
  EXPECT_EQ(6 * kMiB, Resident());
  MakeOld();
  pool(1).TrimIdle();
  EXPECT_EQ(2 * kMiB, Resident());
  // What was given back comes as zeros, and counts again.
  blocks.clear();
  int zeros = 0;
  for (int i = 0; i < 6; ++i) {
    blocks.push_back(MustAllocate(1, kMiB));
    if (pool(1).Data(blocks.back())[5] == 0) ++zeros;
  }
  EXPECT_EQ(4, zeros);
  EXPECT_EQ(6 * kMiB, Resident());
  EXPECT_EQ(6u, std::set<std::uint32_t>(blocks.begin(), blocks.end()).size());
}

TEST_F(PoolTest, ADeadRanksReferencesAreDropped) {
  Open(0, 0);
  const std::uint32_t shared = MustAllocate(0, kMiB);
  ASSERT_TRUE(pool(0).HoldResults(shared, 1, kMiB).ok());
  ASSERT_TRUE(pool(1).HoldResults(shared, 1, kMiB).ok());
  pool(0).Drop(shared, kOperationBit);
  const std::uint32_t alone = MustAllocate(1, kMiB);
  ASSERT_TRUE(pool(1).HoldResults(alone, 1, kMiB).ok());
  pool(1).Drop(alone, kOperationBit);

  pool(0).DropRank(1);
  EXPECT_EQ(alone, MustAllocate(0, kMiB));
  pool(0).DropRank(1);  // again, as another survivor would
  pool(0).ReleaseResult(shared);
  EXPECT_EQ(shared, MustAllocate(0, kMiB));
}

TEST_F(PoolTest, NumbersThatNameNoBlockAreRefused) {
  Open(0, 0);
  const std::uint32_t block = MustAllocate(0, kMiB);
  EXPECT_TRUE(pool(0).Contains(block, 0, kMiB));
  EXPECT_FALSE(pool(0).Contains(block, 1, SizeOfClass(SizeClassFor(kMiB))));
  EXPECT_FALSE(pool(0).Contains(block, ~std::uint64_t{0}, 2));
  EXPECT_FALSE(pool(0).Contains(kNoBlock, 0, 1));
  EXPECT_FALSE(pool(0).Contains(kMaxBlocks + 1, 0, 1));
  EXPECT_EQ(nullptr, pool(0).Data(kMaxBlocks + 1));
  EXPECT_FALSE(pool(0).PrepareWrite(kMaxBlocks + 1, 0, kMiB).ok());
  // A record that a damaged rank wrote over.
  pool(0).memory().block(block).offset.store(pool(0).memory().data_bytes() - 4096);
  EXPECT_FALSE(pool(1).Contains(block, 0, 1));
  pool(0).memory().block(block).size_class.store(5000);
  EXPECT_FALSE(pool(1).Contains(block, 0, 1));
}

TEST_F(PoolTest, AForkedChildLetsGoOfNothing) {
  Open(0, 0);
  const std::uint32_t block = MustAllocate(0, kMiB);
  ASSERT_TRUE(pool(0).HoldResults(block, 1, kMiB).ok());
  pool(0).Drop(block, kOperationBit);
  const pid_t child = fork();
  if (child == 0) {
    pool(0).ReleaseResult(block);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  EXPECT_NE(0u, pool(1).memory().block(block).holders.load());
  pool(0).ReleaseResult(block);
  EXPECT_EQ(0u, pool(1).memory().block(block).holders.load());
}

// No block is ever handed out twice, however threads of both ranks allocate, free and trim.
TEST_F(PoolTest, ManyThreadsAllocateAndLetGo) {
  Open(0, 0);
  constexpr int kThreads = 6;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Pool& own = pool(t % 2);
      for (int i = 0; i < 3000; ++i) {
        std::uint32_t block = kNoBlock;
        if (!own.Allocate(kSmallestBlock + static_cast<std::uint64_t>(i % 3) * 60000, &block)
                 .ok()) {
          ++wrong;
          continue;
        }
        std::atomic<int>* owner = reinterpret_cast<std::atomic<int>*>(own.Data(block));
        if (owner->exchange(t + 1) != 0) ++wrong;
        if (owner->exchange(0) != t + 1) ++wrong;
        own.Drop(block, kOperationBit);
        if (i % 500 == 0) own.TrimIdle();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(0, wrong.load());
  // Three sizes a thread, and some more, since a trim holds the free ones for a moment.
  EXPECT_LE(pool(0).memory().header().block_count.load(), 30u * kThreads);
}

}  // namespace
}  // namespace shm
}  // namespace npu_bridge
