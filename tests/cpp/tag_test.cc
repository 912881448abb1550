#include "csrc/common/tag.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace npu_bridge {
namespace {

TEST(StripLoweringCounters, RemovesTheNumbersThatLoweringAdds) {
  EXPECT_EQ(StripLoweringCounters("while/body/_1/while/body/_59/x"), "while/body/while/body/x");
  EXPECT_EQ(StripLoweringCounters("cond/then/_0/grad"), "cond/then/grad");
  EXPECT_EQ(StripLoweringCounters("_7/x"), "x");
  EXPECT_EQ(StripLoweringCounters("x/_12"), "x");
}

TEST(StripLoweringCounters, KeepsNumbersThatBelongToNames) {
  for (const char* name :
       {"allreduce_1", "tower_0/allreduce", "a/_x1/b", "a/_/b", "a/1/b", "a/_1b/c", "", "a//b"}) {
    EXPECT_EQ(StripLoweringCounters(name), name);
  }
}

TEST(StripLoweringCounters, NeverGivesAnEmptyName) {
  EXPECT_EQ(StripLoweringCounters("_1"), "_1");
  EXPECT_EQ(StripLoweringCounters("_1/_2"), "_1/_2");
}

TEST(StripLoweringCounters, IsTheSameForARankWithOneMoreLoop) {
  EXPECT_EQ(StripLoweringCounters("while/body/_9/while_0/body/_59/inner"),
            StripLoweringCounters("while/body/_41/while_0/body/_91/inner"));
}

TEST(NaturalLess, ComparesDigitsAsNumbers) {
  EXPECT_TRUE(NaturalLess("call_9", "call_10"));
  EXPECT_FALSE(NaturalLess("call_10", "call_9"));
  EXPECT_TRUE(NaturalLess("call", "call_1"));
  EXPECT_TRUE(NaturalLess("a_10/b_2", "a_10/b_11"));
  EXPECT_TRUE(NaturalLess("bar_10", "foo_9"));
  EXPECT_TRUE(NaturalLess("x_99999999999999999999998", "x_99999999999999999999999"));
}

TEST(NaturalLess, IsATotalOrder) {
  const std::vector<std::string> names = {"",     "0",   "00",   "01",  "1",    "a",     "a0",
                                          "a00b", "a0b", "a1",   "a10", "a2",   "a2b10", "a2b9",
                                          "ab",   "b",   "\xff", "a_1", "a_01", "a/1"};
  for (const std::string& a : names) {
    EXPECT_FALSE(NaturalLess(a, a)) << a;
    for (const std::string& b : names) {
      if (a == b) continue;
      EXPECT_NE(NaturalLess(a, b), NaturalLess(b, a)) << a << " " << b;
      for (const std::string& c : names) {
        if (NaturalLess(a, b) && NaturalLess(b, c)) {
          EXPECT_TRUE(NaturalLess(a, c)) << a << " " << b << " " << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace npu_bridge
