// Which calls pair and which never may: steps, second calls under one key, late arrivals.
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

Ask AtStep(std::uint64_t step, const std::string& name = "op") {
  Ask ask;
  ask.name = name;
  ask.edit = [step](CollectiveRequest* request) { request->step = step; };
  return ask;
}

// P05: a step skipped on one rank is never summed with another step.
TEST(CommSteps, ALaterStepIsADesyncOnAllRanks) {
  Job job(3);
  job.Start();
  Job::ExpectOk(job.SubmitOnAll(AtStep(4)));
  const auto zero = job.Submit(0, AtStep(5));
  const auto two = job.Submit(2, AtStep(5));
  const auto one = job.Submit(1, AtStep(6));
  EXPECT_THAT(Job::ExpectSameFailure({zero, one, two}, StatusCode::kInternal),
              HasSubstr("'op' in group hccl_world_group: desync: rank 1 came to step 6, but ranks "
                        "0,2 wait in step 5"));
  // Step 6 has failed on rank 1, so it has for the others.
  EXPECT_EQ(job.Submit(0, AtStep(6))->Message(), one->Message());
  EXPECT_EQ(job.Submit(2, AtStep(6))->Message(), one->Message());
  Job::ExpectOk(job.SubmitOnAll(AtStep(7)));
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

TEST(CommSteps, AnEarlierStepIsADesyncOnAllRanks) {
  Job job(2);
  job.Start();
  const auto zero = job.Submit(0, AtStep(6));
  const auto one = job.Submit(1, AtStep(5));
  EXPECT_THAT(Job::ExpectSameFailure({zero, one}, StatusCode::kInternal),
              HasSubstr("rank 1 came to step 5, but rank 0 waits in step 6"));
  EXPECT_EQ(job.Submit(1, AtStep(6))->Message(), zero->Message());
  Job::ExpectOk(job.SubmitOnAll(AtStep(7)));
  // Rank 0 passed step 5 by, and will never come to its failed cell.
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

TEST(CommSteps, OtherKeysAreNotTouchedByADesync) {
  Job job(2);
  job.Start();
  const auto other = job.Submit(0, AtStep(5, "other"));
  job.Submit(0, AtStep(5));
  EXPECT_FALSE(job.Submit(1, AtStep(6))->Wait().ok());
  EXPECT_FALSE(other->done());
  Job::ExpectOk({other, job.Submit(1, AtStep(5, "other"))});
}

// Two threads that run steps of one op: which of them comes first may differ between ranks.
TEST(CommSteps, StepsThatRunAtOnceAreRefused) {
  for (const std::int32_t first : {0, 1}) {
    Job job(2);
    job.Start();
    std::vector<std::shared_ptr<Pending>> pending{job.Submit(first, AtStep(5)),
                                                  job.Submit(first, AtStep(6))};
    EXPECT_THAT(Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument),
                HasSubstr("rank " + std::to_string(first) +
                          " started it again while an earlier call is still in flight, as two "
                          "threads may do."));
    pending.push_back(job.Submit(1 - first, AtStep(5)));
    pending.push_back(job.Submit(1 - first, AtStep(6)));
    Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument);
    Job::ExpectOk(job.SubmitOnAll(AtStep(7)));
    EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
  }
}

TEST(CommSteps, ASecondCallUnderAKeyInFlightIsRefused) {
  for (std::int32_t others : {0, 1, 2}) {
    Job job(3);
    job.Start();
    std::vector<std::shared_ptr<Pending>> pending;
    // Whether none, one or two of the others have come: the first fails too, since nobody knows
    // which of the two the others' call is.
    if (others > 0) pending.push_back(job.Submit(1, AtStep(1)));
    pending.push_back(job.Submit(0, AtStep(1)));
    pending.push_back(job.Submit(0, AtStep(1)));
    if (others > 1) pending.push_back(job.Submit(2, AtStep(1)));
    EXPECT_THAT(
        Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument),
        AllOf(HasSubstr("rank 0 started a second op under the tag 'op'"), HasSubstr("name=")));
    Job::ExpectOk(job.SubmitOnAll(AtStep(2)));
    EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
  }
}

TEST(CommSteps, TheSameKeyOneAfterAnotherPairs) {
  Job job(2);
  job.Start();
  // Rank 0 is two calls ahead of rank 1's notice.
  job.OnEachRank([&](std::int32_t rank) {
    for (int call = 0; call < 500; ++call) {
      Ask ask = AtStep(1);
      ask.value = static_cast<float>(call);
      EXPECT_THAT(job.Submit(rank, ask)->Floats(), Each(static_cast<float>(2 * call)));
    }
  });
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

TEST(CommSteps, LateArrivalsUnderAFailedKeyFailAtOnce) {
  Job job(4);
  job.Start();
  const auto zero = job.Submit(0, AtStep(1));
  job.world(0).Cancel(zero->id, "the step was cancelled.");
  const std::string text = zero->Message();
  EXPECT_THAT(text, HasSubstr("rank 0 ended it: the step was cancelled."));
  EXPECT_EQ(job.Counter(0, "cells_abandoned"), 1);
  for (std::int32_t rank : {3, 1, 2}) {
    const Status status = job.Submit(rank, AtStep(1))->Wait();
    EXPECT_EQ(status.message(), text);
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kCancelled));
  }
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
  EXPECT_EQ(job.Counter(0, "cells_abandoned"), 0);
}

TEST(CommSteps, CancelEndsTheWaitOnAllRanks) {
  Job job(3);
  job.Start();
  const auto zero = job.Submit(0, AtStep(1));
  const auto one = job.Submit(1, AtStep(1));
  const auto other = job.Submit(0, AtStep(1, "other"));
  job.world(1).Cancel(one->id, "session closed.");
  EXPECT_THAT(Job::ExpectSameFailure({zero, one}, StatusCode::kCancelled),
              HasSubstr("rank 1 ended it: session closed."));
  EXPECT_FALSE(other->done());
  job.world(0).Cancel(one->id + 1000, "unknown");  // ignored
  job.world(0).Cancel(0, "none");
  job.world(0).CancelAll("interrupted by SIGINT.");
  EXPECT_THAT(other->Message(), HasSubstr("interrupted by SIGINT."));
}

TEST(CommSteps, FailedCellsThatNobodyComesToAreBounded) {
  Job job(2);
  job.Start();
  for (std::uint64_t i = 0; i < 9000; ++i) {
    Ask ask;
    ask.name = "refused_" + std::to_string(i);
    ask.collective = Collective::kBroadcast;
    ask.edit = [](CollectiveRequest* request) { request->root_rank = 7; };
    EXPECT_FALSE(job.Submit(0, ask)->Wait().ok());
    // Good calls go on meanwhile, and are what pays for the cleaning.
    if (i % 100 == 0) Job::ExpectOk(job.SubmitOnAll(AtStep(i, "good")));
  }
  EXPECT_LE(job.Counter(0, "cells_in_use"), 4300);
  EXPECT_LE(job.Counter(0, "cells_ever_used"), 4400);
}

TEST(CommSteps, AFullTableIsAnError) {
  Job job(2);
  job.Start();
  Ask send;
  send.collective = Collective::kSend;
  send.edit = [](CollectiveRequest* request) { request->peer_rank = 1; };
  send.shapes = {{0}};
  Status status;
  std::int64_t sent = 0;
  for (; status.ok() && sent < 70000; ++sent) {
    Ask one = send;
    one.edit = [sent](CollectiveRequest* request) {
      request->peer_rank = 1;
      request->send_receive_tag = sent;
    };
    status = job.Submit(0, one)->Wait();
  }
  EXPECT_EQ(sent, 65537);
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kResourceExhausted));
  EXPECT_THAT(status.message(), HasSubstr("all 65536 places for ops in flight"));
  // A receive makes room.
  Ask receive = send;
  receive.collective = Collective::kReceive;
  receive.edit = [](CollectiveRequest* request) { request->send_receive_tag = 4711; };
  Job::ExpectOk({job.Submit(1, receive)});
  Job::ExpectOk(job.SubmitOnAll(AtStep(1)));
}

}  // namespace
}  // namespace comm_test
}  // namespace npu_bridge
