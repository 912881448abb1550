// The matching table in shared memory, with real processes: deaths at bad moments, damaged bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "csrc/comm/cell_table.h"
#include "csrc/comm/matching.h"
#include "csrc/comm/request_check.h"

namespace npu_bridge {
namespace comm {
namespace {

using ::testing::HasSubstr;

class CommTable : public ::testing::Test {
 protected:
  void SetUp() override {
    channels_ = control::MakeChannelsInProcess(2);
    ASSERT_TRUE(CellTable::Open(channels_[0].get(), &table_).ok());
    matching_.reset(new Matching(table_.get(), channels_[0].get()));
    for (std::int32_t rank : {0, 1}) {
      groups_[rank].name = "g";
      groups_[rank].ranks = {0, 1};
      groups_[rank].rank = rank;
      groups_[rank].identity = 42;
    }
  }

  CollectiveRequest Request(const std::string& tag) {
    CollectiveRequest request;
    request.group = "g";
    request.tag = tag;
    request.node_name = tag;
    return request;
  }

  std::vector<std::unique_ptr<control::HostChannel>> channels_;
  std::unique_ptr<CellTable> table_;
  std::unique_ptr<Matching> matching_;
  Group groups_[2];
};

TEST(CommRobustMutex, SurvivesTheDeathOfItsOwner) {
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* mutex = new (memory) RobustMutex;
  mutex->Initialise();
  const pid_t child = fork();
  if (child == 0) {
    mutex->Lock();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  {
    RobustLock lock(mutex);
    EXPECT_TRUE(lock.owner_died());
  }
  {
    RobustLock lock(mutex);
    EXPECT_FALSE(lock.owner_died());
  }
  munmap(memory, 4096);
}

TEST_F(CommTable, ASecondRankMapsTheSameTable) {
  std::unique_ptr<CellTable> other;
  ASSERT_TRUE(CellTable::Open(channels_[1].get(), &other).ok());
  EXPECT_EQ(other->header(), table_->header());  // the ranks are threads of one process
  const std::uint32_t cell = table_->TakeCell();
  EXPECT_EQ(other->CellsInUse(), 1u);
  other->ReturnCell(cell);
  EXPECT_EQ(table_->CellsInUse(), 0u);
}

TEST_F(CommTable, OtherLayoutsMayNotJoin) {
  table_->header()->layout ^= 1;
  std::unique_ptr<CellTable> other;
  EXPECT_THAT(CellTable::Open(channels_[1].get(), &other).message(),
              HasSubstr("different versions of this package"));
}

TEST_F(CommTable, TheMakersDeathIsNoticed) {
  table_->header()->ready.store(1);
  table_->header()->maker.store(1);
  control::MarkDead(*channels_[0]);
  std::unique_ptr<CellTable> other;
  EXPECT_FALSE(CellTable::Open(channels_[1].get(), &other).ok());
}

TEST_F(CommTable, BlocksAreUsedAgain) {
  SharedHeap* heap = table_->heap();
  for (std::size_t bytes : {1u, 512u, 513u, 5000u, 300000u, 3000000u}) {
    const std::uint64_t first = heap->Allocate(bytes);
    ASSERT_NE(first, 0u);
    char* address = heap->Address(first, bytes);
    ASSERT_NE(address, nullptr);
    address[0] = address[bytes - 1] = 1;
    heap->Free(first, bytes);
    EXPECT_EQ(heap->Allocate(bytes), first);
    heap->Free(first, bytes);
  }
  EXPECT_EQ(heap->BytesInUse(), 0u);
  EXPECT_EQ(heap->Allocate(std::size_t{3} << 30), 0u);
  EXPECT_EQ(heap->Address(0, 1), nullptr);
  EXPECT_EQ(heap->Address(kHeapBytes - 1, 2), nullptr);
  EXPECT_EQ(heap->Address(~std::uint64_t{0}, 2), nullptr);
  // Full, then not.
  std::vector<std::uint64_t> blocks;
  constexpr std::size_t kQuarter = kHeapBytes / 4;
  for (std::uint64_t block; (block = heap->Allocate(kQuarter)) != 0;) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 3u);
  for (std::uint64_t block : blocks) heap->Free(block, kQuarter);
  EXPECT_NE(heap->Allocate(kQuarter), 0u);
}

// A rank that dies between two stores of an insertion leaves a chain that others can walk.
TEST_F(CommTable, DamagedChainsAreCut) {
  const CollectiveRequest request = Request("op");
  const Arrival arrival(groups_[0], request);
  CellRef ref;
  CellState state;
  ASSERT_TRUE(matching_->Arrive(arrival, &ref, &state).ok());
  Bucket* bucket = table_->BucketOf(arrival.key);
  for (std::uint32_t bad : {0xfffffff0u, ref.cell}) {
    table_->cell(ref.cell)->next = bad;  // out of range, or a circle
    table_->RepairChain(bucket);
    std::uint32_t steps = 0;
    for (std::uint32_t i = bucket->head; i != kNoCell && steps <= kCellCount;
         i = table_->cell(i)->next) {
      ++steps;
    }
    EXPECT_LE(steps, kCellCount);
    table_->cell(ref.cell)->next = kNoCell;
  }
}

TEST_F(CommTable, DescriptorsThatMakeNoSenseAreAnError) {
  const CollectiveRequest request = Request("op");
  CellRef first;
  CellRef second;
  CellState state;
  ASSERT_TRUE(matching_->Arrive(Arrival(groups_[0], request), &first, &state).ok());
  EXPECT_EQ(state, CellState::kOpen);
  for (char& byte : table_->member(first.cell, 0)->inline_bytes) byte = 0x7f;
  ASSERT_TRUE(matching_->Arrive(Arrival(groups_[1], request), &second, &state).ok());
  EXPECT_EQ(state, CellState::kFailed);
  EXPECT_THAT(matching_->Failure(second).message(), HasSubstr("cannot be read"));
  matching_->Depart(first);
  matching_->Depart(second);
  EXPECT_EQ(table_->CellsInUse(), 0u);
}

TEST_F(CommTable, SizesThatReachPastTheCellAreNotRead) {
  const CollectiveRequest request = Request("op");
  CellRef ref;
  CellState state;
  ASSERT_TRUE(matching_->Arrive(Arrival(groups_[0], request), &ref, &state).ok());
  std::string agreement;
  std::string own;
  CellMember* member = table_->member(ref.cell, 0);
  ASSERT_TRUE(table_->Load(ref.cell, 0, &agreement, &own));
  member->own_size = 100000;
  EXPECT_FALSE(table_->Load(ref.cell, 0, &agreement, &own));
  member->own_size = 10;
  member->heap_block = kHeapBytes - 5;
  EXPECT_FALSE(table_->Load(ref.cell, 0, &agreement, &own));
  member->heap_block = 0;
  table_->cell(ref.cell)->first_member = 1000;
  member->agreement_size = kSharedAgreement;
  EXPECT_FALSE(table_->Load(ref.cell, 0, &agreement, &own));
  EXPECT_FALSE(table_->AgreesWithFirst(ref.cell, agreement));
}

// Long texts are cut, and what is left of them says so.
TEST_F(CommTable, FailureTextsAreBounded) {
  const CollectiveRequest request = Request("op");
  CellRef ref;
  CellState state;
  ASSERT_TRUE(matching_->Arrive(Arrival(groups_[0], request), &ref, &state).ok());
  matching_->Fail(ref, Internal(std::string(10000, 'x')));
  const std::string text = matching_->Failure(ref).message();
  EXPECT_EQ(text.size(), kFailureBytes);
  EXPECT_EQ(text.substr(text.size() - 4), "x...");
  // The first failure stands.
  matching_->Fail(ref, Internal("later"));
  EXPECT_EQ(matching_->Failure(ref).message(), text);
  matching_->Depart(ref);
}

// Kills a process that goes in and out of the table as fast as it can, at any moment; whatever it
// held or had half done, the others go on.
TEST_F(CommTable, AProcessKilledInsideTheTable) {
  for (int round = 0; round < 30; ++round) {
    // Not by fork(), whose handlers take the shared memory from a child: this one is a rank.
    const pid_t child = _Fork();
    if (child == 0) {
      // The parent's mapping is not inherited: the child maps the table for itself.
      std::unique_ptr<CellTable> table;
      if (!CellTable::Open(channels_[1].get(), &table).ok()) _exit(1);
      Matching matching(table.get(), channels_[1].get());
      for (std::uint64_t step = 0;; ++step) {
        CollectiveRequest request = Request("op_" + std::to_string(step % 7));
        request.step = step;
        request.node_name.assign(step % 3 == 0 ? 1000 : 3, 'n');
        CellRef ref;
        CellState state;
        if (matching.Arrive(Arrival(groups_[1], request), &ref, &state).ok()) {
          matching.Fail(ref, Internal("enough"));
          matching.Depart(ref);
        }
      }
    }
    // Once it is seen at work, any moment will do; the time it has run is random enough.
    while (table_->header()->abandoned.load() == 0 && waitpid(child, nullptr, WNOHANG) == 0) {
    }
    usleep(static_cast<useconds_t>(100 + 37 * round));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (int op = 0; op < 7; ++op) {
      CollectiveRequest request = Request("op_" + std::to_string(op));
      request.step = ~std::uint64_t{0} - 100 + static_cast<std::uint64_t>(round);
      CellRef ref;
      CellState state;
      // Whatever the child left behind under the key: an answer, not a hang.
      if (matching_->Arrive(Arrival(groups_[0], request), &ref, &state).ok()) {
        matching_->Fail(ref, Internal("enough"));
        matching_->Depart(ref);
      }
    }
    EXPECT_EQ(table_->heap()->Allocate(100) == 0, false);
  }
}

}  // namespace
}  // namespace comm
}  // namespace npu_bridge
