// Ops of the program that run as one request: what ranks are told when they merged other ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "csrc/comm/fingerprint.h"
#include "tests/cpp/comm_job.h"

namespace npu_bridge {
namespace comm {
namespace {

using comm_test::Ask;
using comm_test::Job;
using comm_test::Pending;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

Settings ShortLimits() {
  Settings settings;
  settings.mismatch_timeout_s = 1;
  settings.exec_timeout_s = 30;
  return settings;
}

// Members of one float32 [4] tensor each.
Ask Fused(const std::vector<std::string>& tags) {
  Ask ask;
  ask.name = "fused " + tags[0];
  ask.shapes.assign(tags.size(), {4});
  ask.edit = [tags](CollectiveRequest* request) {
    for (const std::string& tag : tags) request->members.push_back({tag, tag, 1});
  };
  return ask;
}

TEST(CommFused, EveryMemberGetsItsSum) {
  Job job(3);
  job.Start();
  std::vector<std::shared_ptr<Pending>> pending;
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    pending.push_back(job.Submit(rank, Fused({"a", "b"})));
  }
  for (const auto& one : pending) {
    EXPECT_THAT(one->Floats(0), Each(3));
    EXPECT_THAT(one->Floats(1), Each(3));
  }
}

TEST(CommFused, AMemberThatOneRankLacksIsNamed) {
  Job job(3, ShortLimits());
  job.Start();
  const std::string text = Job::ExpectSameFailure(
      {job.Submit(0, Fused({"a", "b", "c"})), job.Submit(1, Fused({"a", "c"})),
       job.Submit(2, Fused({"a", "b", "c"}))},
      StatusCode::kInvalidArgument);
  EXPECT_THAT(text, AllOf(HasSubstr("rank 1 passed 2 fused ops without 'b'"),
                          HasSubstr("ranks 0,2 passed 3 fused ops"), HasSubstr("fusion=0")));
}

TEST(CommFused, AnOpThatOneRankDidNotMerge) {
  Job job(2, ShortLimits());
  job.Start();
  Ask alone;
  alone.name = "fused a";
  const std::string text = Job::ExpectSameFailure(
      {job.Submit(0, Fused({"a", "b"})), job.Submit(1, alone)}, StatusCode::kInvalidArgument);
  EXPECT_THAT(text, HasSubstr("rank 1 passed the op alone without 'a', 'b'"));
}

TEST(CommFused, AShapeThatDiffersIsToldWithItsMember) {
  Job job(2, ShortLimits());
  job.Start();
  Ask other = Fused({"a", "b", "c"});
  other.shapes[1] = {5};
  const std::string text = Job::ExpectSameFailure(
      {job.Submit(0, Fused({"a", "b", "c"})), job.Submit(1, other)}, StatusCode::kInvalidArgument);
  EXPECT_THAT(text, HasSubstr("rank 1 passed float32 [5] for 'b'"));
}

TEST(CommFused, OpsThatCannotPairListTheirMembers) {
  Job job(2, ShortLimits());
  job.Start();
  const std::string text =
      Job::ExpectSameFailure({job.Submit(0, Fused({"a", "b"})), job.Submit(1, Fused({"b", "c"}))},
                             StatusCode::kInvalidArgument);
  EXPECT_THAT(text, AllOf(HasSubstr("(fused: 'a', 'b')"), HasSubstr("(fused: 'b', 'c')"),
                          HasSubstr("pass fusion=0")));
}

TEST(CommFused, DamagedMembersAreRefused) {
  CollectiveRequest request;
  request.node_name = request.tag = "op";
  request.members = {{"a", "a", 1}, {"b", "b", 1}};
  request.tensors.resize(2);
  const std::string agreement = EncodeAgreement(request);
  const std::string own = EncodeOwn(request);
  Fingerprint read;
  ASSERT_TRUE(Decode(agreement, own, &read));
  ASSERT_EQ(read.members.size(), 2u);
  EXPECT_EQ(read.members[1].tag, "b");
  for (std::size_t size = 0; size < agreement.size(); ++size) {
    EXPECT_FALSE(Decode(agreement.substr(0, size), own, &read)) << size;
  }
}

}  // namespace
}  // namespace comm
}  // namespace npu_bridge
