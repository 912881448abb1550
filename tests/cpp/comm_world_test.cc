// Requests that go well: every op through World, groups, point to point, and the life of a world.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/cpp/comm_job.h"

namespace npu_bridge {
namespace comm_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ask Of(Collective collective, float value = 1) {
  Ask ask;
  ask.collective = collective;
  ask.value = value;
  return ask;
}

void Matrix(CollectiveRequest* request, std::vector<std::int64_t> counts, std::int64_t ranks) {
  request->count_matrices.assign(request->tensors.size(), counts);
  request->count_matrix_shapes = {{ranks, ranks}};
}

std::vector<std::shared_ptr<Pending>> SubmitValues(Job* job, Ask ask) {
  std::vector<std::shared_ptr<Pending>> pending;
  for (std::int32_t rank = 0; rank < job->size(); ++rank) {
    ask.value = static_cast<float>(rank + 1);
    pending.push_back(job->Submit(rank, ask));
  }
  return pending;
}

// What a transport takes part in, over each of them.
class CommOver : public ::testing::TestWithParam<const char*> {
 protected:
  static Settings Over() {
    Settings settings = QuickSettings();
    settings.transport = GetParam();
    return settings;
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, CommOver, ::testing::Values("loopback", "shm"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(CommOver, AllReduceFromAThreadPerRank) {
  for (std::int32_t ranks : {1, 2, 3, 4, 8}) {
    Job job(ranks, Over());
    const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
    job.OnEachRank([&](std::int32_t rank) {
      for (std::uint64_t step = 0; step < 20; ++step) {
        Ask ask = Of(Collective::kAllReduce, static_cast<float>(rank + 1));
        ask.edit = [step](CollectiveRequest* request) { request->step = step; };
        EXPECT_THAT(job.Submit(rank, ask)->Floats(), ElementsAre(sum, sum, sum, sum));
      }
    });
  }
}

TEST_P(CommOver, EveryOp) {
  Job job(2, Over());
  Ask ask = Of(Collective::kAllGather);
  for (const auto& one : SubmitValues(&job, ask)) {
    EXPECT_THAT(one->Floats(), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
  }
  ask = Of(Collective::kBroadcast);
  ask.edit = [](CollectiveRequest* request) { request->root_rank = 1; };
  for (const auto& one : SubmitValues(&job, ask)) EXPECT_THAT(one->Floats(), Each(2));
  ask = Of(Collective::kReduceScatter);
  for (const auto& one : SubmitValues(&job, ask)) EXPECT_THAT(one->Floats(), ElementsAre(3, 3));
  ask = Of(Collective::kReduce);
  auto pending = SubmitValues(&job, ask);
  EXPECT_THAT(pending[0]->Floats(), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(pending[1]->Floats(), ElementsAre(2, 2, 2, 2));
  ask = Of(Collective::kAllToAllV);
  ask.edit = [](CollectiveRequest* request) {
    request->send_counts = request->receive_counts = {3, 3};
    request->send_displacements = request->receive_displacements = {0, 0};
  };
  for (const auto& one : SubmitValues(&job, ask)) EXPECT_THAT(one->Floats(), ElementsAre(2, 2, 2));
  ask = Of(Collective::kAllToAllVC);
  ask.edit = [](CollectiveRequest* request) { Matrix(request, {1, 2, 0, 3}, 2); };
  pending = SubmitValues(&job, ask);
  EXPECT_THAT(pending[0]->Floats(), ElementsAre(1));
  EXPECT_THAT(pending[1]->Floats(), ElementsAre(1, 1, 2, 2, 2));
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

// P20, P21
TEST_P(CommOver, NothingToSendAndScalars) {
  Job job(2, Over());
  Ask first = Of(Collective::kAllToAllV, 5);
  first.edit = [](CollectiveRequest* request) {
    request->send_counts = {1, 1};
    request->send_displacements = {0, 1};
    request->receive_counts = {1, 0};
    request->receive_displacements = {0, 0};
  };
  Ask second = Of(Collective::kAllToAllV);
  second.shapes = {{0, 8}};
  second.edit = [](CollectiveRequest* request) {
    request->send_counts = {0, 0};
    request->send_displacements = {0, 0};
    request->receive_counts = {1, 0};
    request->receive_displacements = {0, 0};
  };
  const auto one = job.Submit(0, first);
  const auto two = job.Submit(1, second);
  EXPECT_THAT(one->Floats(), ElementsAre(5));
  EXPECT_THAT(two->Floats(), ElementsAre(5));
  second.edit = [](CollectiveRequest* request) {
    request->send_counts = request->send_displacements = {0, 0};
    request->receive_counts = request->receive_displacements = {0, 0};
  };
  for (const auto& empty : job.SubmitOnAll(second)) EXPECT_THAT(empty->Floats(), ElementsAre());

  for (Collective collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast}) {
    Ask scalar = Of(collective);
    scalar.shapes = {{}};
    for (const auto& result : job.SubmitOnAll(scalar)) EXPECT_EQ(result->Floats().size(), 1u);
  }
  Ask none = Of(Collective::kBroadcast);
  none.shapes = {};
  Job::ExpectOk(job.SubmitOnAll(none));
}

TEST_P(CommOver, BroadcastMovesBoolAndComplex) {
  Job job(2, Over());
  for (DataType type : {DataType::kBool, DataType::kComplex64, DataType::kComplex128}) {
    Ask ask = Of(Collective::kBroadcast);
    ask.type = type;
    Job::ExpectOk(job.SubmitOnAll(ask));
  }
}

TEST(CommWorld, AWorldOfOneIsTheIdentity) {
  Job job(1);
  for (Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast, Collective::kReduce,
        Collective::kReduceScatter}) {
    EXPECT_THAT(job.Submit(0, Of(collective, 7))->Floats(), ElementsAre(7, 7, 7, 7));
  }
  Ask ask = Of(Collective::kAllToAllV, 7);
  ask.edit = [](CollectiveRequest* request) {
    request->send_counts = request->receive_counts = {2};
    request->send_displacements = {1};
    request->receive_displacements = {3};
  };
  EXPECT_THAT(job.Submit(0, ask)->Floats(), ElementsAre(0, 0, 0, 7, 7));
  ask = Of(Collective::kAllToAllVC, 7);
  ask.edit = [](CollectiveRequest* request) { Matrix(request, {3}, 1); };
  EXPECT_THAT(job.Submit(0, ask)->Floats(), ElementsAre(7, 7, 7));
  ask = Of(Collective::kSend, 9);
  EXPECT_TRUE(job.Submit(0, ask)->Wait().ok());
  EXPECT_THAT(job.Submit(0, Of(Collective::kReceive))->Floats(), ElementsAre(9, 9, 9, 9));
  job.Shutdown();
  EXPECT_THAT(job.Submit(0, Of(Collective::kAllReduce, 3))->Floats(), ElementsAre(3, 3, 3, 3));
}

// Ops of one graph start in any order: the send may come second.
TEST(CommWorld, TheOnlyRankReceivesWhatItSendsLater) {
  Job job(1);
  const auto first = job.Submit(0, Of(Collective::kReceive));
  const auto second = job.Submit(0, Of(Collective::kReceive));
  EXPECT_FALSE(first->done());
  EXPECT_TRUE(job.Submit(0, Of(Collective::kSend, 5))->Wait().ok());
  EXPECT_THAT(first->Floats(), ElementsAre(5, 5, 5, 5));
  job.world(0).Cancel(second->id, "the test says so.");
  EXPECT_EQ(second->Wait().code(), StatusCode::kCancelled);
  const auto third = job.Submit(0, Of(Collective::kReceive));
  job.Shutdown();
  EXPECT_EQ(third->Wait().code(), StatusCode::kCancelled);
}

TEST(CommWorld, TheOnlyRankReceivesWhatItNeverSends) {
  Settings settings = QuickSettings();
  settings.mismatch_timeout_s = 1;
  Job job(1, settings);
  const Status status = job.Submit(0, Of(Collective::kReceive))->Wait();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("has not sent anything with sr_tag"));
}

TEST_P(CommOver, MessagesInOrderWithinATag) {
  Job job(3, Over());
  job.Start();
  const auto send = [&](std::int64_t tag, std::int32_t to, float value) {
    Ask ask = Of(Collective::kSend, value);
    ask.edit = [=](CollectiveRequest* request) {
      request->peer_rank = to;
      request->send_receive_tag = tag;
    };
    return job.Submit(0, ask);
  };
  const auto receive = [&](std::int32_t rank, std::int64_t tag) {
    Ask ask = Of(Collective::kReceive);
    ask.edit = [=](CollectiveRequest* request) {
      request->peer_rank = 0;
      request->send_receive_tag = tag;
      request->step = 77;  // steps are nothing to messages
    };
    return job.Submit(rank, ask);
  };
  const auto early = receive(1, 5);
  // Sends are done without their receivers.
  Job::ExpectOk({send(5, 1, 1), send(5, 1, 2), send(6, 1, 3), send(5, 2, 4), send(5, 0, 5)});
  EXPECT_THAT(early->Floats(), Each(1));
  EXPECT_THAT(receive(1, 6)->Floats(), Each(3));
  EXPECT_THAT(receive(0, 5)->Floats(), Each(5));
  EXPECT_THAT(receive(2, 5)->Floats(), Each(4));
  EXPECT_THAT(receive(1, 5)->Floats(), Each(2));
  // To oneself, the receive first.
  const auto own = receive(0, 9);
  EXPECT_FALSE(own->done());
  send(9, 0, 8);
  EXPECT_THAT(own->Floats(), Each(8));
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

// Ops of one graph start in any order on each rank.
TEST_P(CommOver, AnyStartOrder) {
  constexpr std::int32_t kRanks = 4;
  constexpr int kOps = 200;
  constexpr int kSteps = 5;
  Job job(kRanks, Over());
  std::mt19937 random(12345);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<int>> orders(kRanks);
    for (auto& order : orders) {
      order.resize(kOps);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
    }
    std::vector<std::vector<std::shared_ptr<Pending>>> pending(
        kRanks, std::vector<std::shared_ptr<Pending>>(kOps));
    job.OnEachRank([&](std::int32_t rank) {
      const auto place = static_cast<std::size_t>(rank);
      for (int op : orders[place]) {
        Ask ask = Of(op % 2 == 0 ? Collective::kAllReduce : Collective::kBroadcast,
                     static_cast<float>(op + rank));
        ask.name = "scope/op_" + std::to_string(op / 4);
        ask.edit = [&](CollectiveRequest* request) {
          // Four share a tag, as loop iterations and frames do.
          request->frame_id = static_cast<std::uint64_t>(op % 2);
          request->iteration = op / 2 % 2;
          request->step = static_cast<std::uint64_t>(step);
        };
        pending[place][static_cast<std::size_t>(op)] = job.Submit(rank, ask);
      }
    });
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      for (int op = 0; op < kOps; ++op) {
        const float expected =
            op % 2 == 0 ? static_cast<float>(4 * op + 6) : static_cast<float>(op);
        ASSERT_THAT(pending[rank][static_cast<std::size_t>(op)]->Floats(), Each(expected)) << op;
      }
    }
  }
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
}

// The table holds what is in flight, however many steps there were.
TEST_P(CommOver, TablesDoNotGrowWithSteps) {
  Job job(2, Over());
  for (std::uint64_t step = 0; step < 3000; ++step) {
    Ask ask = Of(Collective::kAllReduce);
    ask.name = "op_" + std::to_string(step);
    ask.edit = [step](CollectiveRequest* request) { request->step = step; };
    Job::ExpectOk(job.SubmitOnAll(ask));
  }
  EXPECT_LE(job.Counter(0, "cells_ever_used"), 2);
  EXPECT_EQ(job.Counter(0, "descriptor_bytes_in_use"), 0);
}

// P68
TEST_P(CommOver, GroupsUsedAndDestroyedInAnyOrder) {
  Job job(4, Over());
  const std::vector<std::pair<std::string, std::vector<std::int32_t>>> groups = {
      {"a", {0, 1, 2}}, {"b", {3, 2}}, {"c", {0, 3}}, {"twin", {0, 1}}};
  for (int round = 0; round < 3; ++round) {
    for (const auto& group : groups) {
      for (std::int32_t rank : group.second) {
        ASSERT_TRUE(job.world(rank).CreateGroup(group.first, group.second).ok());
      }
    }
    for (std::int32_t rank : {3, 2}) {
      ASSERT_TRUE(job.world(rank).CreateGroup("twin", {2, 3}).ok());
    }
    std::vector<std::vector<std::pair<float, std::shared_ptr<Pending>>>> results(4);
    job.OnEachRank([&](std::int32_t rank) {
      std::vector<std::string> names = {"a", "b", "c", "twin", kWorldGroup};
      std::mt19937 random(static_cast<std::uint32_t>(rank + 10 * round));
      std::shuffle(names.begin(), names.end(), random);
      for (const std::string& name : names) {
        std::vector<std::int32_t> members;
        if (!job.world(rank).GroupRanks(name, &members).ok()) continue;
        Ask ask = Of(Collective::kAllReduce, static_cast<float>(rank + 1));
        ask.name = "in_" + name;
        ask.edit = [&name](CollectiveRequest* request) { request->group = name; };
        float sum = 0;
        for (std::int32_t member : members) sum += static_cast<float>(member + 1);
        results[static_cast<std::size_t>(rank)].emplace_back(sum, job.Submit(rank, ask));
        // At once: a request in flight keeps what it needs of its group.
        if (name != kWorldGroup) {
          EXPECT_TRUE(job.world(rank).DestroyGroup(name).ok());
        }
      }
    });
    for (const auto& of_rank : results) {
      for (const auto& result : of_rank) EXPECT_THAT(result.second->Floats(), Each(result.first));
    }
  }
}

TEST(CommWorld, RankOrderOfAGroupIsAsListed) {
  Job job(3);
  for (std::int32_t rank : {2, 0}) {
    ASSERT_TRUE(job.world(rank).CreateGroup("turned", {2, 0}).ok());
  }
  job.Start();
  Ask ask = Of(Collective::kAllGather);
  ask.shapes = {{1}};
  ask.edit = [](CollectiveRequest* request) {
    request->group = "turned";
    request->rank_size = 2;
  };
  ask.value = 10;
  const auto zero = job.Submit(0, ask);
  ask.value = 30;
  const auto two = job.Submit(2, ask);
  EXPECT_THAT(zero->Floats(), ElementsAre(30, 10));
  EXPECT_THAT(two->Floats(), ElementsAre(30, 10));
}

// P55
TEST_P(CommOver, StartUseShutdownCycles) {
  Job job(3, Over());
  for (int cycle = 0; cycle < 3; ++cycle) {
    for (std::int32_t rank : {0, 2}) {
      ASSERT_TRUE(job.world(rank).CreateGroup("ends", {0, 2}).ok());
    }
    // Requests start the world, and queue up in order until it has.
    std::vector<std::shared_ptr<Pending>> pending;
    for (std::uint64_t step = 0; step < 5; ++step) {
      for (std::int32_t rank = 0; rank < 3; ++rank) {
        Ask ask = Of(Collective::kAllReduce, static_cast<float>(step));
        ask.edit = [step](CollectiveRequest* request) { request->step = step; };
        ask.name = "op_" + std::to_string(step);
        pending.push_back(job.Submit(rank, ask));
      }
    }
    Job::ExpectOk(pending);
    std::vector<std::int32_t> ranks;
    ASSERT_TRUE(job.world(1).HostRanks(&ranks).ok());
    EXPECT_TRUE(job.world(1).started());
    EXPECT_THAT(ranks, ElementsAre(0, 1, 2));
    job.Shutdown();
    EXPECT_FALSE(job.world(1).started());
    EXPECT_FALSE(job.world(0).GroupRanks("ends", &ranks).ok());
    // Results stay valid after the shutdown.
    EXPECT_THAT(pending.back()->Floats(), Each(12));
  }
}

TEST(CommWorld, ShutdownEndsWhatIsPending) {
  Job job(2);
  job.Start();
  const auto zero = job.Submit(0, Ask());
  job.world(0).Shutdown();
  const Status status = zero->Wait();
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kCancelled));
  EXPECT_THAT(status.message(), HasSubstr("'op' in group hccl_world_group: rank 0 ended it: it "
                                          "shut down while the op was pending"));
  // The other rank comes to it later, and learns why.
  EXPECT_EQ(job.Submit(1, Ask())->Message(), status.message());
}

TEST(CommWorld, ShutdownWhileTheRanksMeet) {
  Job job(2);
  const auto pending = job.Submit(0, Ask());
  job.world(0).Shutdown();
  EXPECT_THAT(pending->Message(),
              HasSubstr("the ranks could not start: the meeting was interrupted"));
}

TEST(CommWorld, WhatCannotBeConfiguredSaysWhy) {
  World world([](ClusterDescription*, Settings*) { return InvalidArgument("RANK_ID is 'x'"); });
  std::int32_t rank = 0;
  std::int32_t size = 0;
  EXPECT_EQ(world.RankAndSize(&rank, &size).message(), "RANK_ID is 'x'");
  EXPECT_EQ(world.Start().message(), "RANK_ID is 'x'");
  EXPECT_FALSE(world.CreateGroup("g", {0}).ok());
  EXPECT_THAT(world.GroupNames(), ElementsAre());
}

TEST(CommWorld, QueriesNeedNoPeers) {
  Job job(3);
  std::int32_t rank = 0;
  std::int32_t size = 0;
  ASSERT_TRUE(job.world(2).RankAndSize(&rank, &size).ok());
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(size, 3);
  ASSERT_TRUE(job.world(2).CreateGroup("late", {2, 1}).ok());
  EXPECT_THAT(job.world(2).GroupNames(), ElementsAre(kWorldGroup, "late"));
  EXPECT_FALSE(job.world(2).started());
  // A start keeps the groups made before.
  job.Start();
  EXPECT_THAT(job.world(2).GroupNames(), ElementsAre(kWorldGroup, "late"));
}

}  // namespace
}  // namespace comm_test
}  // namespace npu_bridge
