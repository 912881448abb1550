// Ranks that die or leave, in each phase of an op.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cpp/comm_job.h"
#include "tests/cpp/comm_recording_transport.h"

namespace npu_bridge {
namespace comm_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

Ask Of(Collective collective, std::int32_t peer = 0) {
  Ask ask;
  ask.collective = collective;
  ask.edit = [peer](CollectiveRequest* request) { request->peer_rank = peer; };
  return ask;
}

TEST(CommDeath, BeforeTheOpWhileOthersWait) {
  Job job(3);
  job.Start();
  const auto zero = job.Submit(0, Ask());
  const auto two = job.Submit(2, Ask());
  control::MarkDead(job.channel(1));
  EXPECT_THAT(Job::ExpectSameFailure({zero, two}, StatusCode::kInternal),
              AllOf(HasSubstr("'op' in group hccl_world_group: rank 1 (pid "),
                    HasSubstr("died before it came to this op")));
  EXPECT_TRUE(job.WaitForCounter(0, "cells_in_use", 0));
}

TEST(CommDeath, BeforeTheOthersCome) {
  Job job(3);
  job.Start();
  control::MarkDead(job.channel(1));
  EXPECT_THAT(job.Submit(0, Ask())->Message(), HasSubstr("rank 1 (pid "));
  EXPECT_THAT(job.Submit(2, Ask())->Message(), HasSubstr("rank 1 (pid "));
}

TEST(CommDeath, WhileItWaitsItself) {
  Job job(3);
  job.Start();
  const auto one = job.Submit(1, Ask());
  control::MarkDead(job.channel(1));
  const auto zero = job.Submit(0, Ask());
  EXPECT_THAT(zero->Message(), AllOf(HasSubstr("rank 1 (pid "), HasSubstr("died in this op")));
  EXPECT_EQ(job.Submit(2, Ask())->Message(), zero->Message());
}

TEST(CommDeath, InTheMiddleOfTheTransfer) {
  Recording::Reset();
  Settings settings = QuickSettings();
  settings.transport = "recording";
  Job job(3, settings);
  job.Start();
  Recording::Hold();
  const auto pending = job.SubmitOnAll(Ask());
  ASSERT_TRUE(Recording::WaitForStarts(3));
  control::MarkDead(job.channel(1));
  EXPECT_THAT(Job::ExpectSameFailure({pending[0], pending[2]}, StatusCode::kInternal),
              AllOf(HasSubstr("rank 1 (pid "), HasSubstr("died in this op")));
  EXPECT_GE(Recording::Cancelled(0), 1);
  EXPECT_GE(Recording::Cancelled(2), 1);
  EXPECT_TRUE(Recording::WaitForGone(0, 1));
}

TEST(CommDeath, GroupsWithoutTheDeadRankGoOn) {
  Job job(3);
  for (std::int32_t rank : {0, 2}) {
    ASSERT_TRUE(job.world(rank).CreateGroup("rest", {0, 2}).ok());
  }
  job.Start();
  control::MarkDead(job.channel(1));
  Ask ask;
  ask.edit = [](CollectiveRequest* request) { request->group = "rest"; };
  Job::ExpectOk({job.Submit(0, ask), job.Submit(2, ask)});
}

TEST(CommDeath, OfTheSender) {
  Job job(3);
  job.Start();
  const auto waiting = job.Submit(0, Of(Collective::kReceive, 1));
  Job::ExpectOk({job.Submit(1, Of(Collective::kSend, 2))});
  control::MarkDead(job.channel(1));
  EXPECT_THAT(waiting->Message(), HasSubstr("rank 1 (pid "));
  // What it gave before stays readable.
  EXPECT_THAT(job.Submit(2, Of(Collective::kReceive, 1))->Floats(), Each(1));
  EXPECT_FALSE(job.Submit(2, Of(Collective::kReceive, 1))->Wait().ok());
}

TEST(CommDeath, OfTheReceiver) {
  Job job(2);
  job.Start();
  control::MarkDead(job.channel(1));
  EXPECT_THAT(job.Submit(0, Of(Collective::kSend, 1))->Message(),
              AllOf(HasSubstr("rank 1 (pid "), HasSubstr("nobody can receive this")));
}

// A rank that leaves fails only ops that still need something from it.
TEST(CommLeave, FailsWhatStillNeedsIt) {
  Job job(3);
  job.Start();
  const auto done = job.SubmitOnAll(Ask());
  Job::ExpectOk(done);
  Job::ExpectOk({job.Submit(1, Of(Collective::kSend, 0))});
  Ask next;
  next.name = "next";
  const auto waiting = job.Submit(0, next);
  job.world(1).Shutdown();
  EXPECT_THAT(waiting->Message(),
              AllOf(HasSubstr("'next' in group hccl_world_group: rank 1 has left the job by a "
                              "normal exit"),
                    HasSubstr("All ranks must run the same steps")));
  EXPECT_THAT(done[0]->Floats(), Each(3));
  EXPECT_THAT(job.Submit(0, Of(Collective::kReceive, 1))->Floats(), Each(1));
  EXPECT_THAT(job.Submit(2, next)->Message(), HasSubstr("rank 1 has left"));
  // Nobody receives it, and nobody needs to: it succeeds as it would have a moment before.
  EXPECT_TRUE(job.Submit(0, Of(Collective::kSend, 1))->Wait().ok());
  EXPECT_TRUE(job.WaitForCounter(0, "cells_in_use", 0));
}

TEST(CommLeave, SendsThatItNeverReceivedAreFreed) {
  Job job(2);
  job.Start();
  for (int i = 0; i < 10; ++i) Job::ExpectOk({job.Submit(0, Of(Collective::kSend, 1))});
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 10);
  job.world(1).Shutdown();
  EXPECT_TRUE(job.WaitForCounter(0, "cells_in_use", 0));
}

}  // namespace
}  // namespace comm_test
}  // namespace npu_bridge
