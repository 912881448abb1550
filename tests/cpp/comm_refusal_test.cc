// What one rank can see to be wrong: every rank fails at once, with that rank's text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/cpp/comm_job.h"

namespace npu_bridge {
namespace comm_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

void AllToAll(CollectiveRequest* request) {
  request->send_counts = {1, 1};
  request->send_displacements = {0, 1};
  request->receive_counts = {1, 1};
  request->receive_displacements = {0, 1};
}

void Matrix(CollectiveRequest* request) {
  request->count_matrices.assign(request->tensors.size(), {1, 1, 1, 1});
  request->count_matrix_shapes = {{2, 2}};
}

struct Case {
  const char* name;
  Collective collective;
  std::function<void(CollectiveRequest*)> spoil;
  const char* text;
};

// The good request of a kind, for two ranks.
Ask GoodAsk(Collective collective) {
  Ask ask;
  ask.collective = collective;
  if (collective == Collective::kAllToAllV) ask.edit = AllToAll;
  if (collective == Collective::kAllToAllVC) ask.edit = Matrix;
  return ask;
}

std::vector<Case> Cases() {
  using Request = CollectiveRequest;
  return {
      {"RankSizeOfAllGather", Collective::kAllGather, [](Request* r) { r->rank_size = 3; },
       "rank 1 passed rank_size 3, but group hccl_world_group has 2 ranks"},
      {"RankSizeOfReduceScatter", Collective::kReduceScatter, [](Request* r) { r->rank_size = -1; },
       "rank_size -1, but group hccl_world_group has 2"},
      {"RootTooHigh", Collective::kBroadcast, [](Request* r) { r->root_rank = 2; },
       "root_rank 2, but group hccl_world_group has 2 ranks: it must lie in [0, 2)"},
      {"RootNegative", Collective::kReduce, [](Request* r) { r->root_rank = -1; }, "root_rank -1"},
      {"NoReduction", Collective::kAllReduce, [](Request* r) { r->reduction = Reduction::kNone; },
       "no valid reduction"},
      {"ReductionUnknown", Collective::kAllReduce,
       [](Request* r) { r->reduction = static_cast<Reduction>(17); }, "no valid reduction"},
      {"ScalarAllGather", Collective::kAllGather,
       [](Request* r) {
         r->tensors[0].shape = {};
         r->tensors[0].count = 1;
       },
       "float32 [], a scalar"},
      {"ScalarReduceScatter", Collective::kReduceScatter,
       [](Request* r) {
         r->tensors[0].shape = {};
         r->tensors[0].count = 1;
       },
       "float32 [], a scalar"},
      {"NotDivisible", Collective::kReduceScatter,
       [](Request* r) {
         r->tensors[0].shape = {3};
         r->tensors[0].count = 3;
       },
       "float32 [3], but dimension 0 (3) must be divisible by rank_size 2"},
      {"BoolAllReduce", Collective::kAllReduce,
       [](Request* r) { r->tensors[0].type = DataType::kBool; }, "does not take bool"},
      {"ComplexAllGather", Collective::kAllGather,
       [](Request* r) { r->tensors[0].type = DataType::kComplex64; }, "does not take complex64"},
      {"InvalidBroadcast", Collective::kBroadcast,
       [](Request* r) { r->tensors[0].type = DataType::kInvalid; }, "invalid [4]"},
      {"UnknownType", Collective::kBroadcast,
       [](Request* r) { r->tensors[0].type = static_cast<DataType>(33); }, "does not take invalid"},
      {"NegativeDimension", Collective::kAllReduce, [](Request* r) { r->tensors[0].shape = {-1}; },
       "negative or unknown dimension"},
      {"ElementsBeyond64Bits", Collective::kAllReduce,
       [](Request* r) { r->tensors[0].shape = {kMost, 3}; }, "does not fit 64 bits"},
      {"BytesBeyond64Bits", Collective::kAllReduce,
       [](Request* r) {
         r->tensors[0].shape = {kMost / 2};
         r->tensors[0].count = kMost / 2;
       },
       "does not fit 64 bits"},
      {"ResultBeyond64Bits", Collective::kAllGather,
       [](Request* r) {
         r->tensors[0].shape = {kMost / 4 - 1};
         r->tensors[0].count = kMost / 4 - 1;
       },
       "result of 2 ranks does not fit 64 bits"},
      {"CountIsNotTheShapes", Collective::kAllReduce, [](Request* r) { r->tensors[0].count = 5; },
       "with 5 elements, but that shape has 4"},
      {"NoData", Collective::kAllReduce, [](Request* r) { r->tensors[0].input = nullptr; },
       "without its data"},
      {"NoTensor", Collective::kAllReduce, [](Request* r) { r->tensors.clear(); }, "no tensor"},
      {"KindUnknown", Collective::kAllReduce,
       [](Request* r) { r->collective = static_cast<Collective>(99); }, "unknown kind of op (99)"},
      {"SendCountsTooShort", Collective::kAllToAllV, [](Request* r) { r->send_counts = {1}; },
       "send_counts of length 1, but group hccl_world_group has 2 ranks"},
      {"SendDisplacementsTooLong", Collective::kAllToAllV,
       [](Request* r) { r->send_displacements = {0, 0, 0}; }, "send_displacements of length 3"},
      {"ReceiveCountsEmpty", Collective::kAllToAllV, [](Request* r) { r->receive_counts.clear(); },
       "recv_counts of length 0"},
      {"NegativeSendCount", Collective::kAllToAllV, [](Request* r) { r->send_counts[0] = -1; },
       "send_counts[0] = -1"},
      {"NegativeReceiveDisplacement", Collective::kAllToAllV,
       [](Request* r) { r->receive_displacements[1] = -7; }, "recv_displacements[1] = -7"},
      {"PastTheEnd", Collective::kAllToAllV, [](Request* r) { r->send_displacements[1] = 4; },
       "send_displacements[1] = 4 and send_counts[1] = 1, which reach past the end of send_data (4 "
       "elements)"},
      {"SendSumOverflows", Collective::kAllToAllV,
       [](Request* r) { r->send_displacements[1] = kMost; }, "reach past the end"},
      {"ReceiveSumOverflows", Collective::kAllToAllV,
       [](Request* r) { r->receive_displacements[0] = kMost; }, "does not fit 64 bits"},
      {"ReceiveBytesOverflow", Collective::kAllToAllV,
       [](Request* r) { r->receive_displacements[0] = kMost / 4; }, "does not fit 64 bits"},
      {"MatrixShape", Collective::kAllToAllVC, [](Request* r) { r->count_matrix_shapes = {{4}}; },
       "send_count_matrix of shape [4], but group hccl_world_group has 2 ranks: it must be [2,2]"},
      {"MatrixSize", Collective::kAllToAllVC, [](Request* r) { r->count_matrices[0].pop_back(); },
       "send_count_matrix with 3 elements"},
      {"MatrixMissing", Collective::kAllToAllVC, [](Request* r) { r->count_matrices.clear(); },
       "0 matrices send_count_matrix for 1 tensor"},
      {"MatrixNegative", Collective::kAllToAllVC, [](Request* r) { r->count_matrices[0][2] = -1; },
       "send_count_matrix[1,0] = -1"},
      {"MatrixRowOverflows", Collective::kAllToAllVC,
       [](Request* r) { r->count_matrices[0] = {kMost, kMost, 1, 1}; },
       "row 0 sums to more than 64 bits hold"},
      {"MatrixRowPastTheEnd", Collective::kAllToAllVC,
       [](Request* r) { r->count_matrices[0] = {1, 1, 2, 3}; },
       "send_data with 4 elements, but row 1 of send_count_matrix sums to 5"},
      {"ClaimedRank", Collective::kAllToAllVC, [](Request* r) { r->claimed_rank = 0; },
       "rank 1 passed rank 0, but it is rank 1 of the 2 ranks of the group"},
      {"FoundByTheCaller", Collective::kBroadcast,
       [](Request* r) { r->refusal = InvalidArgument("dtype string cannot be sent"); },
       "rank 1: dtype string cannot be sent"},
  };
}

class CommRefusal : public ::testing::TestWithParam<Case> {};

TEST_P(CommRefusal, OnOneRankFailsAllWithItsText) {
  const Case& test = GetParam();
  Job job(2);
  job.Start();
  const Ask good = GoodAsk(test.collective);
  for (bool refused_first : {true, false}) {
    Ask bad = good;
    bad.edit = [&](CollectiveRequest* request) {
      if (good.edit) good.edit(request);
      test.spoil(request);
    };
    std::vector<std::shared_ptr<Pending>> pending;
    if (!refused_first) pending.push_back(job.Submit(0, good));
    pending.push_back(job.Submit(1, bad));
    if (refused_first) pending.push_back(job.Submit(0, good));
    const std::string text = Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument);
    EXPECT_THAT(text, HasSubstr(test.text));
    EXPECT_THAT(text, HasSubstr("'op' in group hccl_world_group"));
    EXPECT_THAT(text, HasSubstr("rank 1"));
    // The next call under the same name is not touched by it.
    Job::ExpectOk(job.SubmitOnAll(good));
  }
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

TEST_P(CommRefusal, OnAllRanksLeavesNothing) {
  const Case& test = GetParam();
  Job job(2);
  const Ask good = GoodAsk(test.collective);
  Ask bad = good;
  bad.edit = [&](CollectiveRequest* request) {
    if (good.edit) good.edit(request);
    test.spoil(request);
  };
  const auto pending = job.SubmitOnAll(bad);
  for (const auto& one : pending) {
    EXPECT_EQ(static_cast<int>(one->Wait().code()), static_cast<int>(StatusCode::kInvalidArgument));
  }
  Job::ExpectOk(job.SubmitOnAll(good));
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommRefusal, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CommRefusals, OfSendReachesTheReceiver) {
  Job job(2);
  Ask send;
  send.collective = Collective::kSend;
  send.edit = [](CollectiveRequest* request) {
    request->peer_rank = 1;
    request->tensors[0].type = DataType::kBool;
  };
  Ask receive;
  receive.collective = Collective::kReceive;
  receive.edit = [](CollectiveRequest* request) { request->peer_rank = 0; };
  const auto received = job.Submit(1, receive);
  const auto sent = job.Submit(0, send);
  const std::string text = Job::ExpectSameFailure({received, sent}, StatusCode::kInvalidArgument);
  EXPECT_THAT(text, HasSubstr("rank 0 passed bool [4]"));
}

TEST(CommRefusals, PeerOutsideTheGroup) {
  Job job(2);
  job.Start();
  Ask send;
  send.collective = Collective::kSend;
  send.edit = [](CollectiveRequest* request) { request->peer_rank = 2; };
  EXPECT_THAT(job.Submit(0, send)->Message(),
              HasSubstr("dest_rank 2, but group hccl_world_group has 2 ranks"));
  send.collective = Collective::kReceive;
  send.edit = [](CollectiveRequest* request) { request->peer_rank = -1; };
  EXPECT_THAT(job.Submit(1, send)->Message(), HasSubstr("src_rank -1"));
}

// P67: the members of a group do not notice that another rank calls on it.
TEST(CommRefusals, GroupThatThisRankIsNotIn) {
  Job job(4);
  for (std::int32_t rank : {1, 2}) {
    ASSERT_TRUE(job.world(rank).CreateGroup("pair", {1, 2}).ok());
  }
  Ask ask;
  ask.edit = [](CollectiveRequest* request) { request->group = "pair"; };
  job.Start();
  const auto first = job.Submit(1, ask);
  const Status status = job.Submit(0, ask)->Wait();
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
  EXPECT_THAT(status.message(), HasSubstr("no group 'pair'"));
  EXPECT_THAT(status.message(), HasSubstr("Known groups: hccl_world_group"));
  EXPECT_FALSE(first->done());
  Job::ExpectOk({first, job.Submit(2, ask)});
  EXPECT_FALSE(job.world(0).CreateGroup("pair", {1, 2}).ok());
}

TEST(CommRefusals, GroupsHaveTheirOwnErrors) {
  Job job(3);
  World& world = job.world(0);
  EXPECT_THAT(world.CreateGroup("", {0}).message(), HasSubstr("1 to 127 bytes"));
  EXPECT_THAT(world.CreateGroup(std::string(128, 'g'), {0}).message(), HasSubstr("has 128"));
  EXPECT_TRUE(world.CreateGroup(std::string(127, 'g'), {0}).ok());
  EXPECT_THAT(world.CreateGroup(kWorldGroup, {0}).message(), HasSubstr("exists"));
  EXPECT_THAT(world.CreateGroup("g", {}).message(), HasSubstr("empty"));
  EXPECT_THAT(world.CreateGroup("g", {0, 3}).message(), HasSubstr("rank 3 is outside"));
  EXPECT_THAT(world.CreateGroup("g", {0, -1}).message(), HasSubstr("rank -1 is outside"));
  EXPECT_THAT(world.CreateGroup("g", {0, 1, 0}).message(), HasSubstr("listed twice"));
  EXPECT_THAT(world.CreateGroup("g", {1, 2}).message(), HasSubstr("not among its members"));
  EXPECT_THAT(world.DestroyGroup("g").message(), HasSubstr("no group 'g'"));
  EXPECT_THAT(world.DestroyGroup(kWorldGroup).message(), HasSubstr("cannot be destroyed"));
  ASSERT_TRUE(world.CreateGroup("g", {2, 0}).ok());
  EXPECT_EQ(static_cast<int>(world.CreateGroup("g", {0}).code()),
            static_cast<int>(StatusCode::kAlreadyExists));
  std::vector<std::int32_t> ranks;
  ASSERT_TRUE(world.GroupRanks("g", &ranks).ok());
  EXPECT_THAT(ranks, ::testing::ElementsAre(2, 0));
}

TEST(CommRefusals, InAWorldOfOne) {
  Job job(1);
  Ask ask;
  ask.collective = Collective::kAllGather;
  ask.edit = [](CollectiveRequest* request) { request->rank_size = 2; };
  EXPECT_THAT(job.Submit(0, ask)->Message(), HasSubstr("rank_size 2"));
}

}  // namespace
}  // namespace comm_test
}  // namespace npu_bridge
