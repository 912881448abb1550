// Requests that wait too long: mismatch error, stall warning, execution timeout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "csrc/comm/deadlock_text.h"
#include "tests/cpp/comm_job.h"
#include "tests/cpp/comm_recording_transport.h"

namespace npu_bridge {
namespace comm_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Settings Limits(std::int64_t mismatch, std::int64_t stall, std::int64_t exec) {
  Settings settings;
  settings.mismatch_timeout_s = mismatch;
  settings.stall_warn_s = stall;
  settings.exec_timeout_s = exec;
  return settings;
}

Ask Named(const std::string& name, std::vector<std::int64_t> shape = {4}) {
  Ask ask;
  ask.name = name;
  ask.shapes = {std::move(shape)};
  return ask;
}

// P01, in a graph: the odd op pairs with nothing.
TEST(CommDeadline, OpsThatCannotPairAreAMismatch) {
  Job job(4, Limits(1, 30, 40));
  job.Start();
  std::vector<std::shared_ptr<Pending>> pending;
  for (std::int32_t rank : {0, 1, 2}) pending.push_back(job.Submit(rank, Named("grad", {10})));
  pending.push_back(job.Submit(3, Named("have_data", {})));
  const std::string text = Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument);
  EXPECT_THAT(text, AllOf(HasSubstr("rank 3 waits in HcomAllReduce 'have_data' float32 []"),
                          HasSubstr("ranks 0,1,2 wait in HcomAllReduce 'grad' float32 [10]"),
                          HasSubstr("nothing has moved for 1 s (NPU_BRIDGE_MISMATCH_TIMEOUT)"),
                          Not(HasSubstr("outer scope"))));
  // Who comes late to one of the two finds the same error.
  EXPECT_EQ(job.Submit(3, Named("grad", {10}))->Message(), text);
}

// P02, P03
TEST(CommDeadline, NamesThatDifferInAnOuterScope) {
  Job job(2, Limits(1, 30, 40));
  job.Start();
  const auto zero = job.Submit(0, Named("net/grad"));
  const auto one = job.Submit(1, Named("tower/net/grad"));
  EXPECT_THAT(Job::ExpectSameFailure({zero, one}, StatusCode::kInvalidArgument),
              HasSubstr("The names 'net/grad' and 'tower/net/grad' differ only in an outer scope"));
}

TEST(CommDeadline, SeveralWaitsAndFusedOps) {
  Job job(2, Limits(1, 30, 40));
  job.Start();
  Ask broadcast = Named("variables");
  broadcast.collective = Collective::kBroadcast;
  broadcast.shapes = {{1}, {2}, {3}, {4}, {5}};
  broadcast.edit = [](CollectiveRequest* request) {
    request->members = {{"weights", "weights", 4}, {"bias", "bias", 1}};
  };
  Ask receive = Named("activations");
  receive.collective = Collective::kReceive;
  receive.edit = [](CollectiveRequest* request) { request->send_receive_tag = 3; };
  std::vector<std::shared_ptr<Pending>> pending = {
      job.Submit(0, broadcast), job.Submit(0, Named("a")), job.Submit(1, receive)};
  EXPECT_THAT(
      Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument),
      AllOf(HasSubstr("rank 0 waits in HcomAllReduce 'a' float32 [4] and HcomBroadcast 'variables' "
                      "float32 [1], float32 [2], float32 [3] and 2 more tensors (fused: 'weights', "
                      "'bias')"),
            HasSubstr("rank 1 waits in HcomReceive 'activations' from rank 0, sr_tag 3, float32 "
                      "[4]"),
            HasSubstr("fusion=0")));
}

TEST(CommDeadline, NoMismatchWhileARankIsAway) {
  Job job(3, Limits(1, 30, 3));
  job.Start();
  const auto zero = job.Submit(0, Named("a"));
  const auto one = job.Submit(1, Named("b"));
  // Rank 2 may yet come to both. So it is the execution timeout that ends them.
  EXPECT_THAT(zero->Message(),
              HasSubstr("'a' in group hccl_world_group: waited 3 s (HCCL_EXEC_TIMEOUT) for ranks "
                        "1,2, which did not come to it"));
  EXPECT_THAT(one->Message(), HasSubstr("for ranks 0,2"));
  EXPECT_EQ(static_cast<int>(one->Wait().code()), static_cast<int>(StatusCode::kDeadlineExceeded));
}

TEST(CommDeadline, NoMismatchWhileTheGroupMoves) {
  Recording::Reset();
  Settings settings = Limits(1, 30, 3);
  settings.transport = "recording";
  Job job(2, settings);
  job.Start();
  Recording::Hold();
  const auto running = job.SubmitOnAll(Named("running"));
  const auto zero = job.Submit(0, Named("a"));
  const auto one = job.Submit(1, Named("b"));
  EXPECT_THAT(zero->Message(), HasSubstr("HCCL_EXEC_TIMEOUT"));
  EXPECT_THAT(Job::ExpectSameFailure(running, StatusCode::kDeadlineExceeded),
              AllOf(HasSubstr("not finished after 3 s"), HasSubstr("ranks 0,1 are still in it")));
  one->Wait();
}

TEST(CommDeadline, OneOpInDifferentIterations) {
  Job job(2, Limits(1, 30, 30));
  job.Start();
  const auto at = [](std::uint64_t step, std::int64_t iteration) {
    Ask ask = Named("grad");
    ask.edit = [=](CollectiveRequest* request) {
      request->step = step;
      request->frame_id = 7;
      request->iteration = iteration;
    };
    return ask;
  };
  const std::vector<std::shared_ptr<Pending>> pending{job.Submit(0, at(1, 3)),
                                                      job.Submit(1, at(2, 0))};
  EXPECT_THAT(
      Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument),
      AllOf(HasSubstr("rank 0 waits in HcomAllReduce 'grad' float32 [4] in step 1, iteration 3 of "
                      "a loop, rank 1 waits in HcomAllReduce 'grad' float32 [4] in step 2, "
                      "iteration 0 of a loop."),
            HasSubstr("Ranks have run different numbers of steps, or of iterations "
                      "(iterations_per_loop).")));
}

TEST(CommDeadline, OtherGroupsDoNotCount) {
  Job job(2, Limits(1, 30, 3));
  for (std::int32_t rank : {0, 1}) ASSERT_TRUE(job.world(rank).CreateGroup("g", {0, 1}).ok());
  job.Start();
  Ask in_group = Named("b");
  in_group.edit = [](CollectiveRequest* request) { request->group = "g"; };
  const auto zero = job.Submit(0, Named("a"));
  const auto one = job.Submit(1, in_group);
  EXPECT_THAT(zero->Message(), HasSubstr("for rank 1"));
  EXPECT_THAT(one->Message(), HasSubstr("for rank 0"));
}

TEST(CommDeadline, OneStallWarningForManyOps) {
  Job job(3, Limits(30, 1, 3));
  job.Start();
  testing::internal::CaptureStderr();
  std::vector<std::shared_ptr<Pending>> pending;
  for (int op = 0; op < 20; ++op) {
    for (std::int32_t rank : {0, 2}) {
      pending.push_back(job.Submit(rank, Named("op_" + std::to_string(op))));
    }
  }
  for (const auto& one : pending) EXPECT_FALSE(one->Wait().ok());
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, HasSubstr("npu-bridge: warning: HcomAllReduce 'op_"));
  EXPECT_THAT(output, HasSubstr("in group hccl_world_group: waiting for rank 1 for 1 s"));
  // Each op is told of once, by one of the two ranks; ops that stall together share a line.
  std::size_t lines = 0;
  std::size_t told = 0;
  for (std::size_t at = 0; (at = output.find("warning", at)) != std::string::npos; ++at) {
    ++lines;
    ++told;
    const std::size_t others = output.find(", as ", at);
    if (others < output.find('\n', at)) told += std::stoul(output.substr(others + 5));
  }
  EXPECT_GE(lines, 1u);
  EXPECT_LE(lines, 4u);
  EXPECT_EQ(told, 20u);
}

TEST(CommDeadline, AReceiveFromNobody) {
  Job job(2, Limits(30, 30, 1));
  job.Start();
  for (std::int32_t source : {0, 1}) {
    Ask receive = Named("r");
    receive.collective = Collective::kReceive;
    receive.edit = [source](CollectiveRequest* request) { request->peer_rank = source; };
    const Status status = job.Submit(0, receive)->Wait();
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kDeadlineExceeded));
    EXPECT_THAT(status.message(), HasSubstr(source == 0 ? "to receive from itself" : "for rank 1"));
  }
}

TEST(CommDeadline, ZeroMeansForEver) {
  Job job(2, Limits(0, 0, 0));
  job.Start();
  const auto zero = job.Submit(0, Named("a"));
  const auto one = job.Submit(1, Named("b"));
  // A pair of other ops runs to its limit meanwhile, in a job of its own.
  Job other(2, Limits(1, 0, 0));
  other.Start();
  const auto limit = std::vector<std::shared_ptr<Pending>>{other.Submit(0, Named("a")),
                                                           other.Submit(1, Named("b"))};
  Job::ExpectSameFailure(limit, StatusCode::kInvalidArgument);
  EXPECT_FALSE(zero->done());
  EXPECT_FALSE(one->done());
}

TEST(CommDeadlockText, OuterScopes) {
  EXPECT_TRUE(comm::DifferInOuterScope("net/grad", "tower/net/grad"));
  EXPECT_TRUE(comm::DifferInOuterScope("x/y/net/grad", "net/grad"));
  EXPECT_TRUE(comm::DifferInOuterScope("a/net/grad", "b/net/grad"));
  EXPECT_FALSE(comm::DifferInOuterScope("a/grad", "b/grad"));
  EXPECT_FALSE(comm::DifferInOuterScope("grad", "grad"));
  EXPECT_FALSE(comm::DifferInOuterScope("grad", "other_grad"));
  EXPECT_FALSE(comm::DifferInOuterScope("net/grad", "net/grad_1"));
}

}  // namespace
}  // namespace comm_test
}  // namespace npu_bridge
