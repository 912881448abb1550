// Which of those that wait make up a world: no processes, and time is a number.
#include "csrc/comm/control/matching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace npu_bridge {
namespace control {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr milliseconds kSoon{1};
constexpr milliseconds kLate{1000000};

// Process `pid` of a family that its command names, child of `parent`; started in pid order.
Waiting Numbered(std::int32_t rank, std::int32_t size, pid_t pid, const std::string& command = "a",
                 pid_t parent = 1) {
  Waiting waiting;
  waiting.claim.rank = rank;
  waiting.claim.size = size;
  waiting.claim.process.process = pid;
  waiting.claim.process.parent = parent;
  waiting.claim.process.session = 7;
  waiting.claim.process.start_time = static_cast<std::uint64_t>(pid);
  waiting.claim.process.command = FingerprintOf(command);
  waiting.claim.process.command_text = command;
  return waiting;
}

Waiting Unnumbered(const std::string& address, std::int32_t device, std::int32_t size, pid_t pid) {
  Waiting waiting = Numbered(0, size, pid);
  waiting.claim.unnumbered = true;
  waiting.claim.worker_address = address;
  waiting.claim.chief_address = "10.0.0.9";
  waiting.claim.device = device;
  return waiting;
}

MatchOutcome MatchAt(const std::vector<Waiting>& waiting, milliseconds now,
                     bool relative_on_the_way = false) {
  return Match(waiting, now, MatchingPatience(),
               [=](const std::vector<std::size_t>&) { return relative_on_the_way; });
}

std::vector<std::size_t> World(std::initializer_list<std::size_t> members) { return members; }

TEST(ControlMatching, FamilyMeetsAtOnceInRankOrder) {
  const MatchOutcome outcome =
      MatchAt({Numbered(2, 3, 10), Numbered(0, 3, 11), Numbered(1, 3, 12)}, kSoon);
  EXPECT_THAT(outcome.worlds, ElementsAre(World({1, 2, 0})));
  EXPECT_FALSE(outcome.ask_again);
}

TEST(ControlMatching, IncompleteFamilyWaitsForItsRanksOnly) {
  const MatchOutcome outcome = MatchAt({Numbered(0, 3, 10), Numbered(2, 3, 12)}, kLate);
  EXPECT_THAT(outcome.worlds, IsEmpty());
  EXPECT_THAT(outcome.refusals, IsEmpty());
  EXPECT_FALSE(outcome.ask_again);
}

TEST(ControlMatching, EqualCommandsPairBeforeUnequalOnes) {
  const MatchOutcome outcome = MatchAt({Numbered(0, 2, 10, "a"), Numbered(0, 2, 11, "b"),
                                        Numbered(1, 2, 12, "b"), Numbered(1, 2, 13, "a")},
                                       kSoon);
  EXPECT_THAT(outcome.worlds, testing::UnorderedElementsAre(World({0, 3}), World({1, 2})));
}

TEST(ControlMatching, SameParentPairsFirst) {
  const MatchOutcome outcome = MatchAt({Numbered(0, 2, 10, "a", 100), Numbered(0, 2, 11, "a", 200),
                                        Numbered(1, 2, 12, "a", 200), Numbered(1, 2, 13, "a", 100)},
                                       kSoon);
  EXPECT_THAT(outcome.worlds, testing::UnorderedElementsAre(World({0, 3}), World({1, 2})));
}

TEST(ControlMatching, ParentsMayDiffer) {
  const MatchOutcome outcome =
      MatchAt({Numbered(0, 2, 10, "a", 100), Numbered(1, 2, 12, "a", 200)}, kSoon);
  EXPECT_THAT(outcome.worlds, ElementsAre(World({0, 1})));
}

TEST(ControlMatching, IdenticalJobsPairInTheOrderOfTheirStart) {
  const MatchOutcome outcome = MatchAt({Numbered(1, 2, 15), Numbered(1, 2, 13), Numbered(0, 2, 14),
                                        Numbered(0, 2, 10), Numbered(1, 2, 11), Numbered(0, 2, 12)},
                                       kSoon);
  EXPECT_THAT(outcome.worlds,
              testing::UnorderedElementsAre(World({3, 4}), World({5, 1}), World({2, 0})));
}

TEST(ControlMatching, ProcessIdsThatBeginAnewKeepTheOrder) {
  std::vector<Waiting> waiting = {Numbered(0, 2, 32766), Numbered(1, 2, 32767), Numbered(0, 2, 300),
                                  Numbered(1, 2, 301)};
  std::swap(waiting[1], waiting[3]);
  for (Waiting& one : waiting) one.claim.process.start_time = 77;
  EXPECT_THAT(MatchAt(waiting, kSoon).worlds,
              testing::UnorderedElementsAre(World({0, 3}), World({2, 1})));
}

TEST(ControlMatching, WaitsForRelativesThatAreLoading) {
  const std::vector<Waiting> waiting = {Numbered(0, 2, 10), Numbered(1, 2, 13)};
  const MatchOutcome held = MatchAt(waiting, milliseconds(4999), true);
  EXPECT_THAT(held.worlds, IsEmpty());
  EXPECT_TRUE(held.ask_again);
  EXPECT_EQ(held.ask_again_after, milliseconds(1));
  EXPECT_THAT(MatchAt(waiting, milliseconds(5000), true).worlds, ElementsAre(World({0, 1})));
}

TEST(ControlMatching, UnequalCommandsMeetWhenNobodyElseComes) {
  const std::vector<Waiting> waiting = {Numbered(0, 2, 10, "a"), Numbered(1, 2, 11, "b")};
  const MatchOutcome early = MatchAt(waiting, milliseconds(1500));
  EXPECT_THAT(early.worlds, IsEmpty());
  EXPECT_TRUE(early.ask_again);
  EXPECT_EQ(early.ask_again_after, milliseconds(500));
  EXPECT_THAT(MatchAt(waiting, milliseconds(2000)).worlds, ElementsAre(World({0, 1})));
}

TEST(ControlMatching, UnequalCommandsDoNotMeetWhenARankIsThereTwice) {
  const MatchOutcome outcome =
      MatchAt({Numbered(0, 2, 10, "a"), Numbered(1, 2, 11, "b"), Numbered(1, 2, 12, "c")}, kLate);
  EXPECT_THAT(outcome.worlds, IsEmpty());
  EXPECT_THAT(outcome.refusals, IsEmpty());
}

TEST(ControlMatching, RankClaimedTwiceIsRefusedWithBothProcesses) {
  const std::vector<Waiting> waiting = {Numbered(0, 3, 4711, "train.py"),
                                        Numbered(0, 3, 4712, "train.py")};
  EXPECT_THAT(MatchAt(waiting, milliseconds(2999)).refusals, IsEmpty());
  EXPECT_THAT(MatchAt(waiting, milliseconds(3000), true).refusals, IsEmpty());
  const MatchOutcome outcome = MatchAt(waiting, milliseconds(3000));
  ASSERT_EQ(outcome.refusals.size(), 1U);
  EXPECT_THAT(outcome.refusals[0].waiting, ElementsAre(0, 1));
  EXPECT_EQ(outcome.refusals[0].status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(outcome.refusals[0].status.message(),
            "rank 0 of 3 is claimed by two processes: pid 4711 (train.py) and pid 4712 (train.py), "
            "while ranks 1, 2 have not come. If they belong to two jobs, set JOB_ID to a value of "
            "its own for each job; if to one, give each process a RANK_ID of its own.");
}

TEST(ControlMatching, RankClaimedTwiceByUnequalFamiliesWaits) {
  const MatchOutcome outcome = MatchAt({Numbered(0, 2, 10, "a"), Numbered(0, 2, 11, "b")}, kLate);
  EXPECT_THAT(outcome.refusals, IsEmpty());
}

TEST(ControlMatching, UnequalSizesAreRefusedWithBoth) {
  const std::vector<Waiting> waiting = {Numbered(0, 2, 10, "t.py"), Numbered(1, 4, 11, "t.py")};
  EXPECT_THAT(MatchAt(waiting, milliseconds(2999)).refusals, IsEmpty());
  const MatchOutcome outcome = MatchAt(waiting, milliseconds(3000));
  ASSERT_EQ(outcome.refusals.size(), 1U);
  EXPECT_THAT(outcome.refusals[0].waiting, ElementsAre(0, 1));
  EXPECT_EQ(outcome.refusals[0].status.message(),
            "rank 0 (pid 10, t.py) was started with RANK_SIZE=2, rank 1 (pid 11, t.py) with "
            "RANK_SIZE=4. All ranks of a job must have the same RANK_SIZE. If they belong to two "
            "jobs, set JOB_ID to a value of its own for each job.");
}

TEST(ControlMatching, CompleteJobsOfUnequalSizesLiveSideBySide) {
  const MatchOutcome outcome = MatchAt({Numbered(0, 2, 10), Numbered(1, 2, 11), Numbered(0, 3, 12),
                                        Numbered(1, 3, 13), Numbered(2, 3, 14)},
                                       kLate);
  EXPECT_THAT(outcome.worlds, testing::UnorderedElementsAre(World({0, 1}), World({2, 3, 4})));
  EXPECT_THAT(outcome.refusals, IsEmpty());
}

TEST(ControlMatching, UnnumberedRanksAreNumberedByChiefAddressDevice) {
  const MatchOutcome outcome =
      MatchAt({Unnumbered("10.0.0.10", 0, 5, 10), Unnumbered("10.0.0.2", 1, 5, 11),
               Unnumbered("10.0.0.9", 7, 5, 12), Unnumbered("10.0.0.2", 0, 5, 13),
               Unnumbered("10.0.0.9", 3, 5, 14)},
              kSoon);
  EXPECT_THAT(outcome.worlds, ElementsAre(World({4, 2, 3, 1, 0})));
}

TEST(ControlMatching, SameAddressAndDeviceIsRefusedWithBothProcesses) {
  const MatchOutcome outcome = MatchAt(
      {Unnumbered("10.0.0.9", 0, 2, 21), Unnumbered("10.0.0.9", 0, 2, 22)}, milliseconds(3000));
  ASSERT_EQ(outcome.refusals.size(), 1U);
  const std::string text = outcome.refusals[0].status.message();
  EXPECT_THAT(text, HasSubstr("device 0 at 10.0.0.9 of 2 is claimed by two processes"));
  EXPECT_THAT(text, HasSubstr("pid 21"));
  EXPECT_THAT(text, HasSubstr("pid 22"));
  EXPECT_THAT(text, HasSubstr("DEVICE_ID"));
}

TEST(ControlMatching, TooManyUnnumberedRanksAreRefused) {
  const MatchOutcome outcome =
      MatchAt({Unnumbered("10.0.0.9", 0, 2, 21), Unnumbered("10.0.0.9", 1, 2, 22),
               Unnumbered("10.0.0.9", 2, 2, 23)},
              milliseconds(3000));
  EXPECT_THAT(outcome.worlds, IsEmpty());
  ASSERT_EQ(outcome.refusals.size(), 1U);
  EXPECT_THAT(outcome.refusals[0].status.message(), HasSubstr("3 processes came for a job of 2"));
}

TEST(ControlMatching, AttendanceNamesTheMissingAndTheLowest) {
  const std::vector<Waiting> waiting = {Numbered(3, 6, 13), Numbered(1, 6, 11),
                                        Numbered(0, 2, 20, "other.py")};
  const Attendance of_three = AttendanceOf(waiting, 0);
  EXPECT_FALSE(of_three.is_lowest);
  EXPECT_THAT(of_three.missing, ElementsAre(0, 2, 4, 5));
  EXPECT_EQ(of_three.present, "rank 1 (pid 11), rank 3 (pid 13)");
  EXPECT_EQ(of_three.remarks, "rank 0 (pid 20, other.py) of 2");
  EXPECT_TRUE(AttendanceOf(waiting, 1).is_lowest);
}

TEST(ControlMatching, ThoseOfAnotherFamilyDoNotWaitTogetherWithADuplicate) {
  const std::vector<Waiting> waiting = {Numbered(0, 3, 10, "a"), Numbered(1, 3, 11, "a"),
                                        Numbered(0, 3, 12, "b")};
  EXPECT_THAT(WaitTogether(waiting, 1), ElementsAre(0, 1));
  EXPECT_THAT(WaitTogether(waiting, 2), ElementsAre(2));
}

TEST(ControlMatching, FormatsRanksAsRanges) {
  EXPECT_EQ(FormatRanks({}), "");
  EXPECT_EQ(FormatRanks({5}), "5");
  EXPECT_EQ(FormatRanks({0, 1, 3, 4, 5, 7}), "0, 1, 3-5, 7");
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
