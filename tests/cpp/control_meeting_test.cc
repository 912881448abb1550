// How the ranks of a job find each other, with real processes: several jobs at one point, staggered
// starts, and ends at every stage. Strangers are in control_strangers_test.cc.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/cpp/control_harness.h"

namespace npu_bridge {
namespace control {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// A rank whose first waiting is announced at once: it tells the test that the rank is there.
Settings Announced() {
  Settings settings;
  settings.slow_start_s = 0;
  return settings;
}

void ExpectMet(const Processes& members) {
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    EXPECT_EQ(members[rank]->Read(), Met(static_cast<std::int32_t>(rank), members));
  }
}

void ExpectLeave(const Processes& members) {
  for (const auto& member : members) member->GoOn();
  for (const auto& member : members) EXPECT_EQ(member->Wait(), 0);
}

TEST(ControlMeeting, RanksMeet) {
  for (const std::int32_t size : {2, 3, 8, 17}) {
    const std::string identity = FreshIdentity();
    Processes members;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      members.push_back(StartRank(Rank(identity, rank, size)));
    }
    ExpectMet(members);
    ExpectLeave(members);
  }
}

TEST(ControlMeeting, RanksThatStartOneByOneMeet) {
  const std::string identity = FreshIdentity();
  Processes members(3);
  members[2] = StartRank(Rank(identity, 2, 3), Announced());
  EXPECT_THAT(members[2]->ReadError(), HasSubstr("for ranks 0, 1 of 3"));
  members[1] = StartRank(Rank(identity, 1, 3), Announced());
  EXPECT_THAT(members[1]->ReadError(),
              AllOf(StartsWith("npu_bridge: rank 1 has waited 0 s for rank 0 of 3"),
                    HasSubstr("@npu_bridge-"), HasSubstr(identity),
                    HasSubstr("rank 2 (pid " + std::to_string(members[2]->pid()) + ")")));
  members[0] = StartRank(Rank(identity, 0, 3));
  ExpectMet(members);
  ExpectLeave(members);
}

TEST(ControlMeeting, ThreadsOfOneProcessMeet) {
  InChild([] {
    const std::string identity = FreshIdentity();
    std::vector<std::unique_ptr<HostChannel>> channels(3);
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        const Status met = Meet(Rank(identity, rank, 3), &channels[static_cast<std::size_t>(rank)]);
        EXPECT_TRUE(met.ok()) << met.message();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(channels[2]->membership().rank, 2);
  });
}

TEST(ControlMeeting, ARankThatEndedWhileItWaitedIsReplaced) {
  const std::string identity = FreshIdentity();
  Processes members(3);
  members[2] = StartRank(Rank(identity, 2, 3), Announced());
  members[2]->ReadError();
  members[1] = StartRank(Rank(identity, 1, 3), Announced());
  members[1]->ReadError();
  members[1]->Kill();
  members[0] = StartRank(Rank(identity, 0, 3));
  members[1] = StartRank(Rank(identity, 1, 3));
  ExpectMet(members);
}

TEST(ControlMeeting, TheRestMeetsWhenTheRegistrarEnds) {
  const std::string identity = FreshIdentity();
  Processes members(3);
  members[2] = StartRank(Rank(identity, 2, 3), Announced());  // the first: it is the registrar
  members[2]->ReadError();
  members[1] = StartRank(Rank(identity, 1, 3), Announced());
  members[1]->ReadError();
  members[2]->Kill();
  members[0] = StartRank(Rank(identity, 0, 3));
  members[2] = StartRank(Rank(identity, 2, 3));
  ExpectMet(members);
}

TEST(ControlMeeting, AnyEndAtAnyStageIsSurvived) {
  // The kill falls on another stage each time, wherever the scheduler put the processes.
  for (int round = 0; round < 40; ++round) {
    const std::string identity = FreshIdentity();
    std::unique_ptr<TestProcess> doomed = StartRank(Rank(identity, round % 2, 2));
    std::unique_ptr<TestProcess> other = StartRank(Rank(identity, 1 - round % 2, 2));
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    doomed->Kill();
    Processes members(2);
    members[static_cast<std::size_t>(round % 2)] = StartRank(Rank(identity, round % 2, 2));
    members[static_cast<std::size_t>(1 - round % 2)] = std::move(other);
    const std::string first = members[static_cast<std::size_t>(1 - round % 2)]->Read();
    if (first.find(" " + std::to_string(doomed->pid())) != std::string::npos) continue;
    EXPECT_EQ(first, Met(1 - round % 2, members));  // it had not met the one that was killed
    EXPECT_EQ(members[static_cast<std::size_t>(round % 2)]->Read(), Met(round % 2, members));
  }
}

TEST(ControlMeeting, ARerunAfterKillsStartsClean) {
  const std::string identity = FreshIdentity();
  for (int round = 0; round < 30; ++round) {
    Processes members;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      members.push_back(StartRank(Rank(identity, rank, 2)));
    }
    ExpectMet(members);
    for (const auto& member : members) member->Kill();
  }
}

TEST(ControlMeeting, FiveIdenticalJobsDoNotMix) {
  const std::string identity = FreshIdentity();  // the same for all, as without a JOB_ID
  std::vector<Processes> jobs(5);
  for (Processes& job : jobs) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      job.push_back(std::make_unique<TestProcess>([&identity, rank](TestLine& line) {
        line.Hear();
        std::unique_ptr<HostChannel> channel;
        const Status status = Meet(Rank(identity, rank, 2), &channel);
        line.Say(Describe(status, channel.get()));
        line.Hear();
      }));
    }
  }
  // The first two to arrive are of different jobs, and so on.
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    jobs[job][0]->GoOn();
    jobs[(job + 1) % jobs.size()][1]->GoOn();
  }
  for (const Processes& job : jobs) ExpectMet(job);
  for (const Processes& job : jobs) ExpectLeave(job);
}

std::unique_ptr<TestProcess> StartIn(const std::string& directory,
                                     const ClusterDescription& cluster) {
  return std::make_unique<TestProcess>([&](TestLine& line) {
    EXPECT_EQ(::chdir(directory.c_str()), 0);
    std::unique_ptr<HostChannel> channel;
    const Status status = Meet(cluster, &channel);
    line.Say(Describe(status, channel.get()));
    line.Hear();
  });
}

TEST(ControlMeeting, TwoJobsWithOneIdentityAreToldApartByDirectory) {
  const std::string identity = FreshIdentity();
  Processes first;
  Processes second;
  first.push_back(StartIn("/", Rank(identity, 0, 2)));
  second.push_back(StartIn("/proc", Rank(identity, 0, 2)));
  second.push_back(StartIn("/proc", Rank(identity, 1, 2)));
  first.push_back(StartIn("/", Rank(identity, 1, 2)));
  ExpectMet(first);
  ExpectMet(second);
}

TEST(ControlMeeting, RanksOfUnequalCommandsMeetWhenNobodyElseComes) {
  const std::string identity = FreshIdentity();
  Processes members;
  members.push_back(std::make_unique<TestProcess>([&](TestLine& line) {
    program_invocation_name[0] = '#';  // what /proc/self/cmdline shows
    std::unique_ptr<HostChannel> channel;
    const Status status = Meet(Rank(identity, 0, 2), &channel);
    line.Say(Describe(status, channel.get()));
    line.Hear();
  }));
  members.push_back(StartRank(Rank(identity, 1, 2)));
  ExpectMet(members);
}

TEST(ControlMeeting, ARankClaimedTwiceIsAnErrorOfBoth) {
  const std::string identity = FreshIdentity();
  const auto one = StartRank(Rank(identity, 0, 2));
  const auto other = StartRank(Rank(identity, 0, 2));
  const std::string text = one->Read();
  EXPECT_THAT(text, AllOf(StartsWith("error 3: rank 0 of 2 is claimed by two processes"),
                          HasSubstr("pid " + std::to_string(one->pid())),
                          HasSubstr("pid " + std::to_string(other->pid())), HasSubstr("control"),
                          HasSubstr("JOB_ID")));
  EXPECT_EQ(other->Read(), text);
}

TEST(ControlMeeting, UnequalSizesAreAnErrorOfBoth) {
  const std::string identity = FreshIdentity();
  const auto one = StartRank(Rank(identity, 0, 2));
  const auto other = StartRank(Rank(identity, 1, 3));
  const std::string text = one->Read();
  EXPECT_THAT(text, AllOf(StartsWith("error 3: rank 0"), HasSubstr("RANK_SIZE=2"),
                          HasSubstr("RANK_SIZE=3")));
  EXPECT_EQ(other->Read(), text);
}

TEST(ControlMeeting, TheTimeoutNamesTheMissingAndReachesAll) {
  const std::string identity = FreshIdentity();
  ClusterDescription cluster = Rank(identity, 2, 4);
  cluster.rank_locations = {"", "The rank table puts rank 1 on node_b.", "", "rank 3: node_c."};
  const auto patient = StartRank(cluster, Announced());
  patient->ReadError();
  Settings hasty;
  hasty.connect_timeout_s = 0;
  cluster.rank = 0;
  const auto giving_up = StartRank(cluster, hasty);
  const std::string text = giving_up->Read();
  EXPECT_THAT(text, AllOf(StartsWith("error 4: rank 0 waited 0 s in vain for ranks 1, 3 of 4"),
                          HasSubstr("The rank table puts rank 1 on node_b. rank 3: node_c."),
                          HasSubstr("need the Gloo transport, which this build lacks"),
                          HasSubstr("rank 2 (pid " + std::to_string(patient->pid()) + ")")));
  EXPECT_EQ(patient->Read(), text);
}

TEST(ControlMeeting, AnInterruptEndsTheWait) {
  TestProcess rank([](TestLine& line) {
    std::atomic<bool> interrupted{false};
    std::thread interrupter([&] {
      line.Hear();
      interrupted.store(true);
    });
    std::unique_ptr<HostChannel> channel;
    const Status status =
        MeetOnHost(Rank(FreshIdentity(), 0, 2), Announced(), interrupted, &channel);
    interrupter.join();
    EXPECT_EQ(status.code(), StatusCode::kCancelled);
  });
  rank.ReadError();
  rank.GoOn();
  EXPECT_EQ(rank.Wait(), 0);
}

TEST(ControlMeeting, ARankOutsideItsWorldIsRefusedAtOnce) {
  InChild([] {
    std::unique_ptr<HostChannel> channel;
    EXPECT_EQ(Meet(Rank("x", 2, 2), &channel).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Meet(Rank("x", -1, 2), &channel).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Meet(Rank("x", 1, 1), &channel).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Meet(Rank("x", 0, 0), &channel).code(), StatusCode::kInvalidArgument);
  });
}

ClusterDescription Unnumbered(const std::string& identity, const std::string& address,
                              std::int32_t device) {
  ClusterDescription cluster = Rank(identity, 0, 3);
  cluster.unnumbered = true;
  cluster.worker_address = address;
  cluster.chief_address = "10.0.0.10";
  cluster.device = device;
  return cluster;
}

TEST(ControlMeeting, UnnumberedRanksGetNumbers) {
  const std::string identity = FreshIdentity();
  Processes members(3);
  members[2] = StartRank(Unnumbered(identity, "10.0.0.9", 0));
  members[1] = StartRank(Unnumbered(identity, "10.0.0.10", 1));
  members[0] = StartRank(Unnumbered(identity, "10.0.0.10", 0));
  ExpectMet(members);
}

TEST(ControlMeeting, UnnumberedRanksThatAreMissingAreCounted) {
  ClusterDescription cluster = Unnumbered(FreshIdentity(), "10.0.0.10", 1);
  Settings hasty;
  hasty.connect_timeout_s = 0;
  EXPECT_THAT(
      StartRank(cluster, hasty)->Read(),
      StartsWith("error 4: device 1 at 10.0.0.10 waited 0 s in vain for 2 more of 3 ranks"));
}

TEST(ControlMeeting, EightRanksNeedFewDescriptors) {
  const std::string identity = FreshIdentity();
  Processes members;
  for (std::int32_t rank = 0; rank < 8; ++rank) {
    members.push_back(std::make_unique<TestProcess>([&identity, rank](TestLine& line) {
      const rlimit limit = {64, 64};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      std::unique_ptr<HostChannel> channel;
      const Status status = Meet(Rank(identity, rank, 8), &channel);
      line.Say(Describe(status, channel.get()));
      int segment = -1;
      const Status shared = channel->ShareSegment("pool", 1 << 20, &segment);
      line.Say(shared.ok() ? "shared" : shared.message());
      line.Hear();
    }));
  }
  ExpectMet(members);
  for (const auto& member : members) EXPECT_EQ(member->Read(), "shared");
  ExpectLeave(members);
}

TEST(ControlMeeting, AJobOfOneNeedsNoThread) {
  InChild([] {
    std::unique_ptr<HostChannel> channel;
    ASSERT_TRUE(Meet(Rank("x", 0, 1), &channel).ok());
    EXPECT_EQ(channel->membership().size, 1);
    std::ifstream status("/proc/self/status");
    const std::string text((std::istreambuf_iterator<char>(status)),
                           std::istreambuf_iterator<char>());
#if !defined(__SANITIZE_THREAD__)  // it has a thread of its own
    EXPECT_THAT(text, HasSubstr("Threads:\t1\n"));
#endif
  });
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
