// Which processes are taken for ranks that have started and not arrived.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "csrc/comm/control/meeting_point.h"
#include "csrc/comm/control/process_identity.h"
#include "tests/cpp/control_harness.h"

namespace npu_bridge {
namespace control {
namespace {

Settings Announced() {
  Settings settings;
  settings.slow_start_s = 0;
  return settings;
}

// Asks from a rank that is the only one to have arrived.
bool SeesRelative(const std::string& identity, bool with_child = false) {
  TestProcess rank([&](TestLine& line) {
    const pid_t child = with_child ? ::fork() : -1;
    if (child == 0) {
      line.Hear();
      ::_exit(0);
    }
    const ProcessIdentity own = DescribeOwnProcess();
    line.Say(RelativeOnTheWay({&own}, {own.process}, MeetingPointName(identity)) ? "yes" : "no");
  });
  return rank.Read() == "yes";
}

TEST(ControlRelatives, OneAloneHasNone) { EXPECT_FALSE(SeesRelative(FreshIdentity())); }

TEST(ControlRelatives, ItsOwnChildIsNone) { EXPECT_FALSE(SeesRelative(FreshIdentity(), true)); }

TEST(ControlRelatives, ASiblingIsOneUntilItEnds) {
  const std::string identity = FreshIdentity();
  TestProcess loading([](TestLine& line) { line.Hear(); });
  EXPECT_TRUE(SeesRelative(identity));
  loading.Kill();
  EXPECT_FALSE(SeesRelative(identity));
}

TEST(ControlRelatives, ASiblingInAnotherSessionOrDirectoryIsNone) {
  TestProcess session([](TestLine& line) {
    ::setsid();
    line.Say("ready");
    line.Hear();
  });
  TestProcess directory([](TestLine& line) {
    EXPECT_EQ(::chdir("/proc"), 0);
    line.Say("ready");
    line.Hear();
  });
  session.Read();
  directory.Read();
  EXPECT_FALSE(SeesRelative(FreshIdentity()));
}

TEST(ControlRelatives, ASiblingThatWaitsIsOneAtThatPointOnly) {
  const std::string there = FreshIdentity();
  const auto waiting = StartRank(Rank(there, 0, 2), Announced());
  waiting->ReadError();
  EXPECT_TRUE(SeesRelative(there));
  EXPECT_FALSE(SeesRelative(FreshIdentity()));
}

TEST(ControlRelatives, ASiblingThatHasMetIsNone) {
  const std::string identity = FreshIdentity();
  const auto one = StartRank(Rank(identity, 0, 2));
  const auto other = StartRank(Rank(identity, 1, 2));
  one->Read();
  other->Read();
  EXPECT_FALSE(SeesRelative(identity));
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
