// What a forked child has of its rank, and what stays open when a channel ends: nothing.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <future>
#include <memory>
#include <string>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/control/process_events.h"
#include "tests/cpp/control_harness.h"

namespace npu_bridge {
namespace control {
namespace {

// What of ours a process has: sockets, pidfds, memory files, and mappings of these.
std::string OwnThings() {
  std::string things;
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    std::array<char, 256> target;
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length <= 0) continue;
    const std::string text(target.data(), static_cast<std::size_t>(length));
    for (const char* kind : {"socket:", "memfd:", "anon_inode:", "pidfd:"}) {
      if (text.find(kind) != std::string::npos) things += text + " ";
    }
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:npu_bridge") != std::string::npos) things += line + " ";
  }
  return things;
}

TEST(ControlFork, AForkedChildHasNothingOfOursAndItsCallsFail) {
  Processes members = StartWorld(2, [](HostChannel& channel, TestLine& line) {
    EXPECT_NE(OwnThings(), "");
    EXPECT_FALSE(IsForkedChild());
    const pid_t child = ::fork();
    if (child == 0) {
      EXPECT_TRUE(IsForkedChild());
      EXPECT_EQ(OwnThings(), "");
      int segment = -1;
      EXPECT_EQ(channel.ShareSegment("a", 4096, &segment).message(), kForkedChildMessage);
      channel.state(0);
      channel.SetDeathHandler([](std::int32_t) {});
      channel.Leave();
      std::unique_ptr<HostChannel> other;
      EXPECT_EQ(Meet(Rank("x", 0, 2), &other).message(), kForkedChildMessage);
      EXPECT_EQ(SignalDescriptor(), -1);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    // The parent's are unharmed.
    EXPECT_EQ(channel.state(0), RankState::kAlive);
    EXPECT_EQ(channel.state(1), RankState::kAlive);
    int segment = -1;
    EXPECT_TRUE(channel.ShareSegment("a", 4096, &segment).ok());
    line.Say("done");
    line.Hear();
  });
  for (const auto& member : members) EXPECT_EQ(member->Read(), "done");
  for (const auto& member : members) member->GoOn();
  for (const auto& member : members) EXPECT_EQ(member->Wait(), 0);
}

TEST(ControlFork, AChildThatDestroysTheChannelHarmsNobody) {
  const std::string identity = FreshIdentity();
  const auto other = StartRank(Rank(identity, 0, 2));
  TestProcess rank([&](TestLine& line) {
    std::unique_ptr<HostChannel> channel;
    ASSERT_TRUE(Meet(Rank(identity, 1, 2), &channel).ok());
    const pid_t child = ::fork();
    if (child == 0) {
      channel.reset();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    int segment = -1;
    EXPECT_TRUE(channel->ShareSegment("a", 4096, &segment).ok());
    EXPECT_EQ(channel->state(1), RankState::kAlive);
    line.Say("done");
  });
  EXPECT_EQ(rank.Read(), "done");
}

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

// As multiprocessing does: the library is loaded, and each child becomes a rank.
TEST(ControlFork, AChildForkedBeforeAnythingWasUsedMayBecomeARank) {
  const std::string identity = FreshIdentity();
  TestProcess parent([&](TestLine&) {
    const int descriptor = SignalDescriptor();
    ASSERT_GE(descriptor, 0);
    std::array<pid_t, 2> children;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      children[static_cast<std::size_t>(rank)] = ::fork();
      if (children[static_cast<std::size_t>(rank)] != 0) continue;
      EXPECT_FALSE(IsForkedChild());
      EXPECT_EQ(SignalDescriptor(), descriptor);
      std::promise<std::string> heard;
      const int token =
          AddInterruptHandler([&heard](const std::string& name) { heard.set_value(name); });
      std::unique_ptr<HostChannel> channel;
      EXPECT_TRUE(Meet(Rank(identity, rank, 2), &channel).ok());
      const char interrupt = SIGINT;
      EXPECT_EQ(::write(descriptor, &interrupt, 1), 1);
      EXPECT_EQ(heard.get_future().get(), "SIGINT");
      RemoveInterruptHandler(token);
      if (channel != nullptr) channel->Leave();
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    for (const pid_t child : children) {
      int status = -1;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    // The children's signals are not the parent's.
    char byte = 0;
    const ProcessPipe pipe = TheProcessPipe();
    EXPECT_EQ(::read(pipe.read_end, &byte, 1), -1);
    EXPECT_EQ(errno, EAGAIN);
  });
  EXPECT_EQ(parent.Wait(), 0);
}

TEST(ControlFork, DescriptorsAreNotThoseOfClosedStandardStreams) {
  TestProcess process([](TestLine&) {
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    EXPECT_GT(SignalDescriptor(), STDERR_FILENO);
    EXPECT_GT(TheProcessPipe().read_end, STDERR_FILENO);
    const OwnedDescriptor made = OwnedDescriptor::Make([] { return ::dup(STDERR_FILENO); });
    EXPECT_GT(made.get(), STDERR_FILENO);
    EXPECT_EQ(::fcntl(STDIN_FILENO, F_GETFD), -1);
  });
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ControlFork, NothingStaysOpenAfterTheChannel) {
  const std::string identity = FreshIdentity();
  Processes members;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    members.push_back(std::make_unique<TestProcess>([&, rank](TestLine& line) {
      // What the process keeps for good: the watcher.
      RemoveInterruptHandler(AddInterruptHandler([](const std::string&) {}));
      const std::size_t before = OpenDescriptors();
      for (int round = 0; round < 5; ++round) {
        std::unique_ptr<HostChannel> channel;
        ASSERT_TRUE(Meet(Rank(identity, rank, 2), &channel).ok());
        int segment = -1;
        ASSERT_TRUE(channel->ShareSegment("a", 4096, &segment).ok());
        ::close(segment);
        line.Say("met");
        line.Hear();
        channel.reset();
        EXPECT_EQ(OpenDescriptors(), before);
      }
    }));
  }
  for (int round = 0; round < 5; ++round) {
    for (const auto& member : members) EXPECT_EQ(member->Read(), "met");
    for (const auto& member : members) member->GoOn();
  }
  for (const auto& member : members) EXPECT_EQ(member->Wait(), 0);
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
