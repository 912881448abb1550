#include "csrc/common/step_counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace npu_bridge {
namespace {

constexpr std::uint64_t kEpoch = 0;

TEST(StepCounter, CountsStepsAndFindsThemByTheirId) {
  StepCounter counter;
  EXPECT_EQ(counter.Find(5), 0u);
  counter.Begin(5, kEpoch, StepSource::kOwnGraph);
  counter.Begin(-7, kEpoch, StepSource::kOwnGraph);
  EXPECT_EQ(counter.Find(5), 1u);
  EXPECT_EQ(counter.Find(-7), 2u);
}

TEST(StepCounter, GivesTheLatestOfStepsWithOneId) {
  StepCounter counter;
  counter.Begin(0, kEpoch, StepSource::kOwnGraph);
  counter.Begin(0, kEpoch, StepSource::kOwnGraph);  // another session counts from 0 as well
  EXPECT_EQ(counter.Find(0), 2u);
}

TEST(StepCounter, GivesTheLatestCountToAStepItDoesNotKnow) {
  StepCounter counter;
  counter.Begin(1, kEpoch, StepSource::kOwnGraph);
  counter.Begin(2, kEpoch, StepSource::kOwnGraph);
  EXPECT_EQ(counter.Find(99), 2u);
}

TEST(StepCounter, RemembersTheStepsThatMayRunAtOnceAndNoMore) {
  StepCounter counter;
  for (std::int64_t step = 1; step <= 1000; ++step) {
    counter.Begin(step, kEpoch, StepSource::kOwnGraph);
  }
  for (std::int64_t step = 937; step <= 1000; ++step) {
    EXPECT_EQ(counter.Find(step), static_cast<std::uint64_t>(step));
  }
  EXPECT_EQ(counter.Find(1), 1000u);
}

TEST(StepCounter, IgnoresAFunctionsOwnGraphOnceACallerCounts) {
  StepCounter counter;
  counter.Begin(1, kEpoch, StepSource::kCaller);
  counter.Begin(100, kEpoch, StepSource::kOwnGraph);
  EXPECT_EQ(counter.Find(100), 1u);
  counter.Begin(2, kEpoch, StepSource::kCaller);  // a branch skips the function in this step
  counter.Begin(3, kEpoch, StepSource::kCaller);
  counter.Begin(101, kEpoch, StepSource::kOwnGraph);
  EXPECT_EQ(counter.Find(101), 3u);
}

TEST(StepCounter, StartsAnewInAnotherEpoch) {
  StepCounter counter;
  for (std::int64_t step = 1; step <= 5; ++step) {
    counter.Begin(step, 1, StepSource::kOwnGraph);
  }
  counter.Begin(6, 2, StepSource::kOwnGraph);
  EXPECT_EQ(counter.Find(6), 1u);
  EXPECT_EQ(counter.Find(5), 1u) << "a count of the epoch before must not be found";
}

TEST(StepCounter, NumbersCalls) {
  StepCounter counter;
  EXPECT_EQ(counter.NextCall(kEpoch), 1u);
  EXPECT_EQ(counter.NextCall(kEpoch), 2u);
  EXPECT_EQ(counter.NextCall(kEpoch + 1), 1u);
}

TEST(StepCounter, GivesEachCallOfManyThreadsItsOwnNumber) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 1000;
  StepCounter counter;
  std::vector<std::vector<std::uint64_t>> numbers(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter, &numbers, i] {
      for (int call = 0; call < kCalls; ++call) numbers[i].push_back(counter.NextCall(kEpoch));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> all;
  for (const auto& some : numbers) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kThreads * kCalls));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i + 1);
}

TEST(StepCounterFor, GivesOneCounterForATagInAGroup) {
  StepCounter& counter = StepCounterFor("group", "tag");
  EXPECT_EQ(&counter, &StepCounterFor("group", "tag"));
  EXPECT_NE(&counter, &StepCounterFor("group", "tag2"));
  EXPECT_NE(&counter, &StepCounterFor("other", "tag"));
  EXPECT_NE(&StepCounterFor("ab", "c"), &StepCounterFor("a", "bc"));
}

}  // namespace
}  // namespace npu_bridge
