// Worlds of threads, and what happens to the process as a whole: signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/control/process_events.h"
#include "tests/cpp/control_harness.h"

namespace npu_bridge {
namespace control {
namespace {

using testing::HasSubstr;

TEST(ControlInProcess, RanksKnowEachOther) {
  InChild([] {
    const auto channels = MakeChannelsInProcess(3);
    ASSERT_EQ(channels.size(), 3U);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const HostMembership& membership = channels[static_cast<std::size_t>(rank)]->membership();
      EXPECT_EQ(membership.rank, rank);
      EXPECT_EQ(membership.host_rank, rank);
      EXPECT_EQ(membership.size, 3);
      EXPECT_THAT(membership.host_ranks, testing::ElementsAre(0, 1, 2));
      EXPECT_THAT(membership.process_ids, testing::Each(::getpid()));
    }
    EXPECT_EQ(channels[0]->state(99), RankState::kAlive);
  });
}

TEST(ControlInProcess, DeathsReachTheOthersOnce) {
  InChild([] {
    const auto channels = MakeChannelsInProcess(3);
    std::promise<std::int32_t> seen;
    std::promise<std::int32_t> seen_late;
    channels[0]->SetDeathHandler([&](std::int32_t rank) { seen.set_value(rank); });
    std::atomic<bool> seen_by_itself{false};
    channels[1]->SetDeathHandler([&](std::int32_t) { seen_by_itself.store(true); });
    MarkDead(*channels[1]);
    MarkDead(*channels[1]);  // a second call of the handler would throw
    EXPECT_EQ(seen.get_future().get(), 1);
    channels[2]->SetDeathHandler([&](std::int32_t rank) { seen_late.set_value(rank); });
    EXPECT_EQ(seen_late.get_future().get(), 1);
    for (const auto& channel : channels) {
      EXPECT_EQ(channel->state(1), RankState::kDead);
      channel->SetDeathHandler(nullptr);
    }
    EXPECT_FALSE(seen_by_itself.load());
    EXPECT_THAT(channels[0]->DescribeRank(1), HasSubstr("ended without leaving"));
  });
}

TEST(ControlInProcess, LeavingIsSeenAndIsNoDeath) {
  InChild([] {
    auto channels = MakeChannelsInProcess(2);
    std::atomic<bool> died{false};
    channels[0]->SetDeathHandler([&](std::int32_t) { died.store(true); });
    channels[1].reset();
    EXPECT_EQ(channels[0]->state(1), RankState::kLeft);
    channels[0]->SetDeathHandler(nullptr);
    EXPECT_FALSE(died.load());
  });
}

TEST(ControlInProcess, SegmentsAreShared) {
  InChild([] {
    const auto channels = MakeChannelsInProcess(2);
    int first = -1;
    int second = -1;
    ASSERT_TRUE(channels[0]->ShareSegment("a", 4096, &first).ok());
    ASSERT_TRUE(channels[1]->ShareSegment("a", 8192, &second).ok());
    struct stat one = {};
    struct stat other = {};
    ::fstat(first, &one);
    ::fstat(second, &other);
    EXPECT_EQ(one.st_ino, other.st_ino);
    EXPECT_EQ(one.st_size, 8192);
    MarkDead(*channels[0]);
    EXPECT_EQ(channels[1]->ShareSegment("b", 4096, &second).code(), StatusCode::kInternal);
  });
}

TEST(ControlEvents, InterruptsReachTheHandlersAndOtherSignalsDoNot) {
  InChild([] {
    std::promise<std::string> first;
    std::promise<std::string> second;
    std::atomic<int> calls{0};
    const int token = AddInterruptHandler([&](const std::string& name) {
      (calls.fetch_add(1) == 0 ? first : second).set_value(name);
    });
    const int descriptor = SignalDescriptor();
    ASSERT_GE(descriptor, 0);
    const std::string bytes = {SIGCHLD, SIGUSR1, 127, SIGINT};
    EXPECT_EQ(::write(descriptor, bytes.data(), bytes.size()), 4);
    EXPECT_EQ(first.get_future().get(), "SIGINT");
    const char terminate = SIGTERM;
    EXPECT_EQ(::write(descriptor, &terminate, 1), 1);
    EXPECT_EQ(second.get_future().get(), "SIGTERM");
    EXPECT_EQ(calls.load(), 2);
    RemoveInterruptHandler(token);
    // Another handler shows that the byte has been read.
    std::promise<void> read;
    const int other = AddInterruptHandler([&](const std::string&) { read.set_value(); });
    EXPECT_EQ(::write(descriptor, &terminate, 1), 1);
    read.get_future().wait();
    EXPECT_EQ(calls.load(), 2);
    RemoveInterruptHandler(other);
    RemoveInterruptHandler(other);
    RemoveInterruptHandler(0);
  });
}

TEST(ControlEvents, RemovingWaitsForTheHandlerThatRuns) {
  InChild([] {
    std::promise<void> entered;
    std::promise<void> release;
    std::atomic<bool> ended{false};
    const int token = AddInterruptHandler([&](const std::string&) {
      entered.set_value();
      release.get_future().wait();
      ended.store(true);
    });
    const char interrupt = SIGINT;
    EXPECT_EQ(::write(SignalDescriptor(), &interrupt, 1), 1);
    entered.get_future().wait();
    std::thread remover([&] {
      RemoveInterruptHandler(token);
      EXPECT_TRUE(ended.load());
    });
    release.set_value();
    remover.join();
  });
}

TEST(ControlEvents, AHandlerMayRemoveItself) {
  InChild([] {
    std::promise<void> done;
    std::atomic<int> token{0};
    token.store(AddInterruptHandler([&](const std::string&) {
      RemoveInterruptHandler(token.load());
      done.set_value();
    }));
    const char interrupt = SIGINT;
    EXPECT_EQ(::write(SignalDescriptor(), &interrupt, 1), 1);
    done.get_future().wait();
  });
}

TEST(ControlEvents, TheWatcherTakesNoSignals) {
  InChild([] {
    AddInterruptHandler([](const std::string&) {});
    static std::atomic<std::thread::id> handled_by;
    struct sigaction action = {};
    action.sa_handler = [](int) { handled_by.store(std::this_thread::get_id()); };
    ::sigaction(SIGUSR1, &action, nullptr);
    // Blocked here: were it open in the watcher thread, that one would take it.
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
    ::kill(::getpid(), SIGUSR1);
    sigset_t pending;
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGUSR1), 1);
  });
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
