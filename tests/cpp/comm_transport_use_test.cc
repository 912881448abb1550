// How comm uses a transport: choice, one order, failures, cancellation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "csrc/common/collective.h"
#include "tests/cpp/comm_job.h"
#include "tests/cpp/comm_recording_transport.h"

namespace npu_bridge {
namespace comm_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

Settings With(const std::string& transport) {
  Settings settings = QuickSettings();
  settings.transport = transport;
  return settings;
}

class CommTransport : public ::testing::Test {
 protected:
  void SetUp() override { Recording::Reset(); }
};

TEST_F(CommTransport, UnknownNamesAreRefusedAtStart) {
  Job job(2, With("carrier_pigeon"));
  job.OnEachRank([&](std::int32_t rank) {
    EXPECT_THAT(job.world(rank).Start().message(), HasSubstr("carrier_pigeon"));
  });
}

TEST_F(CommTransport, NoneThatServesTheOp) {
  Job job(2, With("recording"));
  Recording::Refuse(static_cast<std::int32_t>(Collective::kAllToAllV));
  Ask ask;
  ask.collective = Collective::kAllToAllVC;
  ask.edit = [](CollectiveRequest* request) {
    request->count_matrices = {{1, 1, 1, 1}};
    request->count_matrix_shapes = {{2, 2}};
  };
  const auto pending = job.SubmitOnAll(ask);
  for (const auto& one : pending) {
    EXPECT_EQ(static_cast<int>(one->Wait().code()), static_cast<int>(StatusCode::kUnimplemented));
    EXPECT_THAT(one->Message(), HasSubstr("no transport here serves it (recording: the test says "
                                          "no)"));
  }
  Job::ExpectOk(job.SubmitOnAll(Ask()));
}

TEST_F(CommTransport, StartsInOneOrderWhereItNeedsOne) {
  constexpr std::int32_t kRanks = 3;
  constexpr int kOps = 100;
  for (const char* transport : {"recording", "recording_ordered"}) {
    Recording::Reset();
    Job job(kRanks, With(transport));
    job.Start();
    job.OnEachRank([&](std::int32_t rank) {
      std::vector<int> order(kOps);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<std::uint32_t>(rank)));
      std::vector<std::shared_ptr<Pending>> pending;
      for (int op : order) {
        Ask ask;
        ask.name = "op_" + std::to_string(op);
        ask.value = static_cast<float>(op);
        // Some fail, and must not hold up those behind them.
        if (op % 10 == 3) ask.shapes = {{rank + 1}};
        if (op % 10 == 7 && rank == 1) {
          ask.edit = [](CollectiveRequest* request) { request->reduction = Reduction::kNone; };
        }
        pending.push_back(job.Submit(rank, ask));
      }
      for (std::size_t i = 0; i < pending.size(); ++i) {
        if (order[i] % 10 == 3 || order[i] % 10 == 7) {
          EXPECT_FALSE(pending[i]->Wait().ok());
        } else {
          EXPECT_THAT(pending[i]->Floats(), Each(static_cast<float>(kRanks * order[i])));
        }
      }
    });
    EXPECT_EQ(Recording::Started(0).size(), 80u);
    for (std::int32_t rank = 1; rank < kRanks; ++rank) {
      if (transport == std::string("recording_ordered")) {
        EXPECT_EQ(Recording::Started(rank), Recording::Started(0));
      } else {
        EXPECT_EQ(Recording::Started(rank).size(), 80u);
      }
    }
  }
}

// What is cancelled after its place in the order was announced still takes its turn.
TEST_F(CommTransport, CancelledOpsDoNotHoldUpTheOrder) {
  Job job(2, With("recording_ordered"));
  job.Start();
  for (int round = 0; round < 200; ++round) {
    std::vector<std::shared_ptr<Pending>> pending(2);
    job.OnEachRank([&](std::int32_t rank) {
      Ask ask;
      ask.name = "op_" + std::to_string(round);
      pending[static_cast<std::size_t>(rank)] = job.Submit(rank, ask);
      if (rank == round % 2) {
        job.world(rank).Cancel(pending[static_cast<std::size_t>(rank)]->id, "in time or not.");
      }
    });
    // Done before the cancellation, or ended by it.
    for (const auto& one : pending) one->Wait();
  }
  Job::ExpectOk(job.SubmitOnAll(Ask()));
}

TEST_F(CommTransport, AFailureToStartFailsAllRanks) {
  Job job(3, With("recording"));
  job.Start();
  Recording::FailStart(1, "no memory left");
  const auto pending = job.SubmitOnAll(Ask());
  EXPECT_THAT(Job::ExpectSameFailure(pending, StatusCode::kResourceExhausted),
              HasSubstr("'op' in group hccl_world_group: rank 1 could not start it: no memory "
                        "left"));
  Recording::FailStart(-1, "");
  Job::ExpectOk(job.SubmitOnAll(Ask()));
}

TEST_F(CommTransport, CancelReachesATransferOnAllRanks) {
  Job job(3, With("recording"));
  job.Start();
  Recording::Hold();
  const auto pending = job.SubmitOnAll(Ask());
  ASSERT_TRUE(Recording::WaitForStarts(3));
  job.world(2).Cancel(pending[2]->id, "the step failed.");
  EXPECT_THAT(Job::ExpectSameFailure(pending, StatusCode::kCancelled),
              HasSubstr("rank 2 ended it: the step failed."));
  for (std::int32_t rank = 0; rank < 3; ++rank) EXPECT_GE(Recording::Cancelled(rank), 1);
  Recording::Release();
  Job::ExpectOk(job.SubmitOnAll(Ask()));
}

TEST_F(CommTransport, ShutdownEndsATransfer) {
  Job job(2, With("recording"));
  job.Start();
  Recording::Hold();
  const auto pending = job.SubmitOnAll(Ask());
  ASSERT_TRUE(Recording::WaitForStarts(2));
  job.world(0).Shutdown();
  EXPECT_THAT(Job::ExpectSameFailure(pending, StatusCode::kCancelled), HasSubstr("shut down"));
}

TEST_F(CommTransport, NoMemoryForAResultFailsAllRanks) {
  Job job(2, With("recording"));
  job.Start();
  const auto zero = job.Submit(0, Ask());
  Ask ask;
  ask.edit = [](CollectiveRequest* request) { request->tensors.resize(1); };
  auto request = std::make_shared<CollectiveRequest>(*zero->request);
  request->allocate = [](std::size_t, std::uint64_t) -> void* { return nullptr; };
  auto one = std::make_shared<Pending>();
  one->request = request;
  job.world(1).Submit(request, [one](const Status& status, std::vector<CollectiveResult> results) {
    one->Set(status, std::move(results));
  });
  Job::ExpectSameFailure({zero, one}, StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace comm_test
}  // namespace npu_bridge
