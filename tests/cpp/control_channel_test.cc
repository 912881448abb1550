// What a rank has once it has met the others: shared memory, and news of their ends.
#include "csrc/comm/control/host_channel.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cpp/control_harness.h"

namespace npu_bridge {
namespace control {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Collects deaths; Wait() returns the ranks of the next `count` of them.
class Deaths {
 public:
  void Watch(HostChannel& channel) {
    channel.SetDeathHandler([this](std::int32_t rank) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ranks_.insert(rank);
      ++count_;
      changed_.notify_all();
    });
  }
  std::multiset<std::int32_t> Wait(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ranks_.size() >= count; });
    return ranks_;
  }
  std::size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::int32_t> ranks_;
  std::size_t count_ = 0;
};

// Says "watching", then the ranks whose deaths it saw, each with its description.
void TellDeaths(HostChannel& channel, TestLine& line, std::size_t count) {
  Deaths deaths;
  deaths.Watch(channel);
  line.Say("watching");
  for (const std::int32_t rank : deaths.Wait(count)) {
    EXPECT_EQ(channel.state(rank), RankState::kDead);
    line.Say(std::to_string(rank) + ": " + channel.DescribeRank(rank));
  }
  channel.SetDeathHandler(nullptr);
}

void ExpectDeathSeen(TestProcess& survivor, std::int32_t rank, pid_t process) {
  EXPECT_EQ(survivor.Read(), std::to_string(rank) + ": pid " + std::to_string(process) +
                                 ", which ended without leaving the job (killed, crashed, or "
                                 "os._exit)");
}

TEST(ControlChannel, EveryRankSeesEveryDeath) {
  for (std::size_t killed = 0; killed < 3; ++killed) {
    Processes members =
        StartWorld(3, [](HostChannel& channel, TestLine& line) { TellDeaths(channel, line, 1); });
    for (const auto& member : members) ASSERT_EQ(member->Read(), "watching");
    members[killed]->Kill();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (rank == killed) continue;
      ExpectDeathSeen(*members[rank], static_cast<std::int32_t>(killed), members[killed]->pid());
      EXPECT_EQ(members[rank]->Wait(), 0);
    }
  }
}

TEST(ControlChannel, ADeathBeforeTheHandlerIsDelivered) {
  Processes members = StartWorld(2, [](HostChannel& channel, TestLine& line) {
    line.Say("met");
    while (channel.state(1 - channel.membership().rank) == RankState::kAlive) {
      std::this_thread::yield();
    }
    TellDeaths(channel, line, 1);
  });
  EXPECT_EQ(members[0]->Read(), "met");
  EXPECT_EQ(members[1]->Read(), "met");
  members[0]->Kill();
  EXPECT_EQ(members[1]->Read(), "watching");
  ExpectDeathSeen(*members[1], 0, members[0]->pid());
}

// Makes pidfd_open fail, as strict container profiles do.
void RefusePidfd() {
  std::array<sock_filter, 4> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 434, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
  ASSERT_EQ(::syscall(434, ::getpid(), 0), -1);
}

TEST(ControlChannel, DeathsAreSeenWhereProcessDescriptorsAreRefused) {
  const std::string identity = FreshIdentity();
  Processes members;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    members.push_back(std::make_unique<TestProcess>([&, rank](TestLine& line) {
      RefusePidfd();
      std::unique_ptr<HostChannel> channel;
      ASSERT_TRUE(Meet(Rank(identity, rank, 4), &channel).ok());
      TellDeaths(*channel, line, 2);
    }));
  }
  for (const auto& member : members) ASSERT_EQ(member->Read(), "watching");
  members[0]->Kill();  // the leader
  members[2]->Kill();
  for (const std::size_t rank : {1, 3}) {
    ExpectDeathSeen(*members[rank], 0, members[0]->pid());
    ExpectDeathSeen(*members[rank], 2, members[2]->pid());
    EXPECT_EQ(members[rank]->Wait(), 0);
  }
}

TEST(ControlChannel, AnExecIsADeath) {
  Processes members = StartWorld(2, [](HostChannel& channel, TestLine& line) {
    if (channel.membership().rank == 1) {
      line.Hear();
      ::execl("/bin/cat", "cat", static_cast<char*>(nullptr));
    }
    TellDeaths(channel, line, 1);
  });
  ASSERT_EQ(members[0]->Read(), "watching");
  members[1]->GoOn();
  ExpectDeathSeen(*members[0], 1, members[1]->pid());
}

TEST(ControlChannel, AChildThatOutlivesItsRankDoesNotHideTheDeath) {
  Processes members = StartWorld(2, [](HostChannel& channel, TestLine& line) {
    if (channel.membership().rank == 0) {
      TellDeaths(channel, line, 1);
      return;
    }
    if (::fork() == 0) {
      line.Hear();  // it outlives its rank, and ends with the test
      ::_exit(0);
    }
    TellDeaths(channel, line, 1);
  });
  ASSERT_EQ(members[0]->Read(), "watching");
  ASSERT_EQ(members[1]->Read(), "watching");
  members[1]->Kill();
  ExpectDeathSeen(*members[0], 1, members[1]->pid());
}

TEST(ControlChannel, LeavingIsNoDeath) {
  Processes members = StartWorld(3, [](HostChannel& channel, TestLine& line) {
    if (channel.membership().rank == 2) {
      channel.Leave();
      channel.Leave();
      line.Hear();
      return;
    }
    Deaths deaths;
    deaths.Watch(channel);
    while (channel.state(2) == RankState::kAlive) std::this_thread::yield();
    line.Say(channel.DescribeRank(2));
    line.Hear();  // rank 2 has ended
    // A death that comes after it has been seen after it.
    EXPECT_EQ(deaths.Wait(1), std::multiset<std::int32_t>({1 - channel.membership().rank}));
    EXPECT_EQ(channel.state(2), RankState::kLeft);
    line.Say("done");
  });
  const std::string left = "pid " + std::to_string(members[2]->pid()) + ", which left the job";
  EXPECT_EQ(members[0]->Read(), left);
  EXPECT_EQ(members[1]->Read(), left);
  members[2]->GoOn();
  EXPECT_EQ(members[2]->Wait(), 0);
  members[1]->Kill();
  members[0]->GoOn();
  EXPECT_EQ(members[0]->Read(), "done");
}

TEST(ControlChannel, SegmentsAreTheSameOnAllRanks) {
  Processes members = StartWorld(3, [](HostChannel& channel, TestLine& line) {
    const std::int32_t rank = channel.membership().rank;
    int segment = -1;
    // Each asks for another size: the largest so far is there.
    const std::uint64_t bytes = 4096ULL * static_cast<std::uint64_t>(rank + 1);
    ASSERT_TRUE(channel.ShareSegment("pool", bytes, &segment).ok());
    struct stat file = {};
    ASSERT_EQ(::fstat(segment, &file), 0);
    EXPECT_GE(static_cast<std::uint64_t>(file.st_size), bytes);
    EXPECT_EQ(::ftruncate(segment, 0), -1);  // sealed
    auto* data = static_cast<volatile std::int32_t*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment, 0));
    ASSERT_NE(static_cast<volatile void*>(data), MAP_FAILED);
    int other = -1;
    ASSERT_TRUE(channel.ShareSegment("other", 4096, &other).ok());
    struct stat other_file = {};
    ASSERT_EQ(::fstat(other, &other_file), 0);
    EXPECT_NE(file.st_ino, other_file.st_ino);
    data[rank] = 100 + rank;
    line.Say("written");
    line.Hear();
    for (std::int32_t i = 0; i < 3; ++i) EXPECT_EQ(data[i], 100 + i);
    line.Say("read");
    line.Hear();
  });
  for (const auto& member : members) EXPECT_EQ(member->Read(), "written");
  for (const auto& member : members) member->GoOn();
  for (const auto& member : members) EXPECT_EQ(member->Read(), "read");
  for (const auto& member : members) member->GoOn();
  for (const auto& member : members) EXPECT_EQ(member->Wait(), 0);
}

TEST(ControlChannel, BadSegmentsAreRefusedAndHarmNothing) {
  Processes members = StartWorld(2, [](HostChannel& channel, TestLine& line) {
    int segment = -1;
    EXPECT_EQ(channel.ShareSegment("", 1, &segment).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(channel.ShareSegment(std::string(64, 'x'), 1, &segment).code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(channel.ShareSegment("a", 0, &segment).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(channel.ShareSegment("a", ~0ULL, &segment).code(), StatusCode::kInvalidArgument);
    if (channel.membership().rank == 0) {
      const rlimit limit = {1 << 20, 1 << 20};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    line.Say("limited");
    line.Hear();
    const Status too_long = channel.ShareSegment("a", 1 << 21, &segment);
    EXPECT_EQ(too_long.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(too_long.message(), HasSubstr("ulimit -f"));
    EXPECT_TRUE(channel.ShareSegment(std::string(63, 'x'), 1, &segment).ok());
    line.Say("done");
    line.Hear();
  });
  for (const auto& member : members) EXPECT_EQ(member->Read(), "limited");
  for (const auto& member : members) member->GoOn();
  for (const auto& member : members) EXPECT_EQ(member->Read(), "done");
  for (const auto& member : members) member->GoOn();
  for (const auto& member : members) EXPECT_EQ(member->Wait(), 0);
}

TEST(ControlChannel, NoSegmentComesFromALeaderThatIsGone) {
  for (const bool leaves : {true, false}) {
    Processes members = StartWorld(2, [&](HostChannel& channel, TestLine& line) {
      line.Say("met");
      line.Hear();
      if (channel.membership().rank == 0) {
        channel.Leave();
        int segment = -1;
        EXPECT_FALSE(channel.ShareSegment("pool", 4096, &segment).ok());
        line.Say("left");
        line.Hear();
        return;
      }
      int segment = -1;
      line.Say(channel.ShareSegment("pool", 4096, &segment).message());
    });
    for (const auto& member : members) EXPECT_EQ(member->Read(), "met");
    const std::string leader = std::to_string(members[0]->pid());
    if (leaves) {
      members[0]->GoOn();
      EXPECT_EQ(members[0]->Read(), "left");
    } else {
      members[0]->Kill();
    }
    members[1]->GoOn();
    EXPECT_THAT(members[1]->Read(),
                AllOf(HasSubstr("rank 0 (pid " + leader),
                      HasSubstr("before it shared segment 'pool' with rank 1")));
  }
}

TEST(ControlChannel, AStoppedLeaderIsATimeout) {
  const std::string identity = FreshIdentity();
  const auto leader = StartRank(Rank(identity, 0, 2));
  TestProcess member([&](TestLine& line) {
    Settings settings;
    settings.connect_timeout_s = 3;  // of the meeting and of the segment
    std::unique_ptr<HostChannel> channel;
    ASSERT_TRUE(Meet(Rank(identity, 1, 2), settings, &channel).ok());
    line.Say("met");
    line.Hear();
    int segment = -1;
    line.Say(channel->ShareSegment("pool", 4096, &segment).message());
    line.Say(channel->ShareSegment("pool", 4096, &segment).message());
  });
  EXPECT_EQ(member.Read(), "met");
  leader->Read();
  leader->Stop();
  member.GoOn();
  EXPECT_THAT(member.Read(), HasSubstr("did not share segment 'pool' within 3 s"));
  EXPECT_THAT(member.Read(), HasSubstr("rank 0"));
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
