#include "csrc/tf/passes/frame_names_plan.h"

#include <gtest/gtest.h>

namespace npu_bridge {
namespace {

using Names = std::set<std::string>;
using Renamed = std::map<std::string, std::string>;

TEST(PlanFrameNames, RenamesFramesThatAreNamedWithCounters) {
  const Names frames = {"while", "while/body/_7/while"};
  EXPECT_EQ(PlanFrameNames(frames, frames), (Renamed{{"while/body/_7/while", "while/body/while"}}));
}

TEST(PlanFrameNames, GivesRanksWithOtherCountersTheSameNames) {
  const Renamed one = PlanFrameNames({"a/_1/while"}, {"a/_1/while"});
  const Renamed other = PlanFrameNames({"a/_23/while"}, {"a/_23/while"});
  EXPECT_EQ(one.begin()->second, other.begin()->second);
}

TEST(PlanFrameNames, LeavesFramesWithoutCollectivesAlone) {
  EXPECT_EQ(PlanFrameNames({"a/_1/while", "b/_1/while"}, {"b/_1/while"}),
            (Renamed{{"b/_1/while", "b/while"}}));
}

TEST(PlanFrameNames, LeavesFramesAloneThatWouldGetOneName) {
  const Names frames = {"a/_1/while", "a/_2/while"};
  EXPECT_TRUE(PlanFrameNames(frames, frames).empty());
}

TEST(PlanFrameNames, LeavesAFrameAloneWhoseNewNameIsTaken) {
  EXPECT_TRUE(PlanFrameNames({"a/_1/while", "a/while"}, {"a/_1/while"}).empty());
}

}  // namespace
}  // namespace npu_bridge
