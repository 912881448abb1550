// Ranks that pass different things: one text on all of them, before any data moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "csrc/comm/fingerprint.h"
#include "tests/cpp/comm_job.h"

namespace npu_bridge {
namespace comm_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// One ask a rank, submitted in rank order and in the opposite one: the text must not depend on it.
std::string Mismatch(const std::vector<Ask>& asks) {
  const auto ranks = static_cast<std::int32_t>(asks.size());
  Job job(ranks);
  job.Start();
  std::vector<std::shared_ptr<Pending>> pending(asks.size());
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    pending[static_cast<std::size_t>(rank)] =
        job.Submit(rank, asks[static_cast<std::size_t>(rank)]);
  }
  const std::string text = Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument);
  for (std::int32_t rank = ranks - 1; rank >= 0; --rank) {
    pending[static_cast<std::size_t>(rank)] =
        job.Submit(rank, asks[static_cast<std::size_t>(rank)]);
  }
  EXPECT_EQ(Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument), text);
  Job::ExpectOk(job.SubmitOnAll(Ask()));
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
  EXPECT_EQ(job.Counter(0, "descriptor_bytes_in_use"), 0);
  return text;
}

Ask WithShape(std::vector<std::int64_t> shape) {
  Ask ask;
  ask.shapes = {std::move(shape)};
  return ask;
}

Ask WithType(DataType type, std::vector<std::int64_t> shape = {4}) {
  Ask ask = WithShape(std::move(shape));
  ask.type = type;
  return ask;
}

Ask Edited(Collective collective, std::function<void(CollectiveRequest*)> edit) {
  Ask ask;
  ask.collective = collective;
  ask.edit = std::move(edit);
  return ask;
}

// P12
TEST(CommMismatch, Sizes) {
  EXPECT_EQ(Mismatch({WithShape({409600}), WithShape({409598}), WithShape({409598}),
                      WithShape({409598})}),
            "HcomAllReduce 'op' in group hccl_world_group: rank 0 passed float32 [409600], ranks "
            "1,2,3 passed float32 [409598]. All ranks must pass the same shape.");
}

// P13
TEST(CommMismatch, Types) {
  EXPECT_THAT(Mismatch({WithType(DataType::kFloat32), WithType(DataType::kFloat32),
                        WithType(DataType::kBfloat16)}),
              AllOf(HasSubstr("rank 2 passed bfloat16 [4], ranks 0,1 passed float32 [4]"),
                    HasSubstr("the same dtype.")));
  EXPECT_THAT(Mismatch({WithType(DataType::kInt32), WithType(DataType::kFloat32),
                        WithType(DataType::kFloat32)}),
              HasSubstr("rank 0 passed int32 [4], ranks 1,2 passed float32 [4]"));
  EXPECT_THAT(Mismatch({WithType(DataType::kInt32, {2}), WithType(DataType::kFloat32, {3})}),
              HasSubstr("the same dtype and the same shape"));
}

// P14: three errors, each naming what differs.
TEST(CommMismatch, ShapesOfEqualSize) {
  EXPECT_THAT(Mismatch({WithShape({2, 3}), WithShape({3, 2})}),
              AllOf(HasSubstr("rank 0 passed float32 [2,3], rank 1 passed float32 [3,2]"),
                    HasSubstr("the same shape.")));
  EXPECT_THAT(Mismatch({WithShape({}), WithShape({1})}), HasSubstr("rank 0 passed float32 []"));
}

TEST(CommMismatch, Roots) {
  const auto root = [](std::int32_t rank) {
    return Edited(Collective::kBroadcast,
                  [rank](CollectiveRequest* request) { request->root_rank = rank; });
  };
  EXPECT_THAT(Mismatch({root(0), root(1)}),
              AllOf(HasSubstr("rank 0 passed root_rank 0, rank 1 passed root_rank 1"),
                    HasSubstr("the same root_rank.")));
}

TEST(CommMismatch, Reductions) {
  const auto reduction = [](Reduction value) {
    return Edited(Collective::kAllReduce,
                  [value](CollectiveRequest* request) { request->reduction = value; });
  };
  EXPECT_THAT(Mismatch({reduction(Reduction::kSum), reduction(Reduction::kMax)}),
              AllOf(HasSubstr("rank 0 passed reduction sum, rank 1 passed reduction max"),
                    HasSubstr("the same reduction.")));
}

TEST(CommMismatch, Kinds) {
  Ask gather;
  gather.collective = Collective::kAllGather;
  EXPECT_THAT(Mismatch({Ask(), gather, Ask()}),
              AllOf(HasSubstr("Op 'op' in group hccl_world_group: rank 1 called HcomAllGather, "
                              "ranks 0,2 called HcomAllReduce"),
                    HasSubstr("the same op.")));
}

// P01: eager calls pair by their order; the odd op is named.
TEST(CommMismatch, NamesTheSidesWhereTheyDiffer) {
  Ask odd = WithShape({});
  odd.edit = [](CollectiveRequest* request) { request->node_name = "have_data"; };
  const Ask usual = WithShape({10});
  EXPECT_THAT(Mismatch({usual, usual, usual, odd}),
              AllOf(HasSubstr("rank 3 passed float32 [] ('have_data')"),
                    HasSubstr("ranks 0,1,2 passed float32 [10] ('op')")));
}

TEST(CommMismatch, TensorLists) {
  Ask two;
  two.collective = Collective::kBroadcast;
  two.shapes = {{2}, {3}};
  Ask three = two;
  three.shapes = {{2}, {3}, {4}};
  EXPECT_THAT(Mismatch({two, three, three}),
              HasSubstr("rank 0 passed 2 tensors, ranks 1,2 passed 3 tensors"));
  Ask other = three;
  other.shapes = {{2}, {5}, {4}};
  EXPECT_THAT(Mismatch({three, other}),
              HasSubstr("rank 0 passed float32 [3] for tensor 1 of 3, rank 1 passed float32 [5] "
                        "for tensor 1 of 3"));
}

Ask WithNames(const std::vector<std::string>& names) {
  Ask ask = Edited(Collective::kBroadcast, [names](CollectiveRequest* request) {
    for (std::size_t i = 0; i < names.size(); ++i) request->tensors[i].name = names[i];
  });
  ask.shapes.assign(names.size(), {4});
  return ask;
}

// P06: ops of equal names and shapes, and tensors that a rank passes in another order.
TEST(CommMismatch, NamesOfTensors) {
  EXPECT_EQ(Mismatch({WithNames({"a:0"}), WithNames({"b:0"}), WithNames({"a:0"})}),
            "HcomBroadcast 'op' in group hccl_world_group: rank 1 passed tensor 'b:0', ranks 0,2 "
            "passed tensor 'a:0'. NPU_BRIDGE_CHECK_NAMES=1 asks for tensors of the same names on "
            "all ranks: create the ops, and list their tensors, in the same order on every rank, "
            "or give each op a name of its own (tf.name_scope).");
  EXPECT_THAT(Mismatch({WithNames({"a:0", "b:0", "c:0"}), WithNames({"a:0", "c:0", "b:0"})}),
              HasSubstr("rank 0 passed tensor 'b:0' for tensor 1 of 3, rank 1 passed tensor 'c:0' "
                        "for tensor 1 of 3."));
}

TEST(CommMismatch, RanksWithoutNamesOfTensorsAreNotCompared) {
  EXPECT_THAT(Mismatch({WithNames({"a:0"}), WithNames({""}), WithNames({"b:0"})}),
              AllOf(HasSubstr("rank 0 passed tensor 'a:0'"),
                    HasSubstr("rank 1 passed a tensor of unknown name"),
                    HasSubstr("rank 2 passed tensor 'b:0'")));
  Job job(3);
  job.Start();
  const auto expect_ok = [&job](const std::vector<std::vector<std::string>>& names) {
    std::vector<std::shared_ptr<Pending>> pending;
    for (std::int32_t rank : {0, 1, 2}) {
      pending.push_back(job.Submit(rank, WithNames(names[static_cast<std::size_t>(rank)])));
    }
    Job::ExpectOk(pending);
  };
  expect_ok({{"a:0", "b:0"}, {"a:0", "b:0"}, {"a:0", "b:0"}});
  expect_ok({{"", ""}, {"a:0", "b:0"}, {"a:0", ""}});
  expect_ok({{"a:0", ""}, {"", "b:0"}, {"", ""}});
  EXPECT_EQ(job.Counter(0, "descriptor_bytes_in_use"), 0);
}

TEST(CommMismatch, OtherDifferencesAreToldBeforeNames) {
  Ask other = WithNames({"b:0"});
  other.shapes = {{2, 2}};
  EXPECT_THAT(Mismatch({WithNames({"a:0"}), other}),
              AllOf(HasSubstr("the same shape."), Not(HasSubstr("a:0"))));
}

TEST(CommMismatch, TheTwoEndsOfAMessageHaveTheirOwnNames) {
  Job job(2);
  job.Start();
  const auto end = [](Collective collective, std::int32_t peer, const char* name) {
    return Edited(collective, [peer, name](CollectiveRequest* request) {
      request->peer_rank = peer;
      request->tensors[0].name = name;
    });
  };
  Job::ExpectOk({job.Submit(0, end(Collective::kSend, 1, "given:0")),
                 job.Submit(1, end(Collective::kReceive, 0, "taken:0"))});
}

// P11: no entry is paired with another, and none waits for one that is not there.
TEST(CommMismatch, EntriesOfAListThatAreAbsent) {
  const auto without = [](std::vector<std::int64_t> entries) {
    return Edited(Collective::kAllReduce,
                  [entries](CollectiveRequest* request) { request->absent_entries = entries; });
  };
  EXPECT_EQ(Mismatch({without({}), without({1}), without({})}),
            "HcomAllReduce 'op' in group hccl_world_group: rank 1 passed an entry of a list in "
            "which entry 1 is None, ranks 0,2 passed an entry of a list without None. All ranks "
            "must pass None at the same positions: replace None by tf.zeros_like of the "
            "variable.");
  EXPECT_THAT(Mismatch({without({1}), without({1, 3})}), HasSubstr("entries 1,3 are None"));
  Job job(2);
  Job::ExpectOk(job.SubmitOnAll(without({0, 2})));
}

TEST(CommMismatch, Matrices) {
  const auto matrix = [](std::vector<std::int64_t> counts) {
    return Edited(Collective::kAllToAllVC, [counts](CollectiveRequest* request) {
      request->count_matrices = {counts};
      request->count_matrix_shapes = {{2, 2}};
    });
  };
  EXPECT_THAT(Mismatch({matrix({1, 2, 1, 1}), matrix({1, 1, 1, 1})}),
              HasSubstr("rank 0 passed send_count_matrix[0,1] = 2, rank 1 passed "
                        "send_count_matrix[0,1] = 1. All ranks must pass the same matrix."));
}

// P26
TEST(CommMismatch, ReceiveCountsThatAreNotWhatIsSent) {
  for (std::int64_t expected : {3, 2}) {
    const Ask first = Edited(Collective::kAllToAllV, [](CollectiveRequest* request) {
      request->send_counts = {0, 1};
      request->send_displacements = {0, 0};
      request->receive_counts = {0, 0};
      request->receive_displacements = {0, 0};
    });
    const Ask second = Edited(Collective::kAllToAllV, [expected](CollectiveRequest* request) {
      request->send_counts = {0, 0};
      request->send_displacements = {0, 0};
      request->receive_counts = {expected, 0};
      request->receive_displacements = {0, 0};
    });
    EXPECT_THAT(Mismatch({first, second}),
                HasSubstr("rank 0 sends 1 element to rank 1 (its send_counts[1]), but rank 1 "
                          "expects " +
                          std::to_string(expected) + " from rank 0 (its recv_counts[0])"));
  }
}

TEST(CommMismatch, AllToAllNeedsTheSameType) {
  const auto typed = [](DataType type) {
    Ask ask = Edited(Collective::kAllToAllV, [](CollectiveRequest* request) {
      request->send_counts = request->receive_counts = {1, 1};
      request->send_displacements = request->receive_displacements = {0, 1};
    });
    ask.type = type;
    return ask;
  };
  EXPECT_THAT(Mismatch({typed(DataType::kInt32), typed(DataType::kFloat32)}),
              HasSubstr("rank 0 passed int32 [4], rank 1 passed float32 [4]"));
}

TEST(CommMismatch, InASubgroupNamesWorldRanksToo) {
  Job job(4);
  std::vector<std::shared_ptr<Pending>> pending;
  for (std::int32_t rank : {3, 1}) {
    ASSERT_TRUE(job.world(rank).CreateGroup("odd", {3, 1}).ok());
  }
  job.Start();
  for (std::int32_t rank : {3, 1}) {
    Ask ask = WithShape({rank});
    ask.edit = [](CollectiveRequest* request) { request->group = "odd"; };
    pending.push_back(job.Submit(rank, ask));
  }
  EXPECT_THAT(Job::ExpectSameFailure(pending, StatusCode::kInvalidArgument),
              AllOf(HasSubstr("rank 0 of the group (world rank 3) passed float32 [3]"),
                    HasSubstr("rank 1 of the group (world rank 1) passed float32 [1]")));
}

TEST(CommMismatch, ReceiverChecksTheSend) {
  for (bool send_first : {true, false}) {
    Job job(2);
    job.Start();
    Ask send = WithType(DataType::kInt32);
    send.collective = Collective::kSend;
    send.name = "give";
    send.edit = [](CollectiveRequest* request) { request->peer_rank = 1; };
    Ask receive = WithShape({2, 2});
    receive.collective = Collective::kReceive;
    receive.name = "take";
    receive.edit = [](CollectiveRequest* request) { request->peer_rank = 0; };
    std::shared_ptr<Pending> sent;
    if (send_first) {
      sent = job.Submit(0, send);
      // It does not wait for the receiver.
      EXPECT_TRUE(sent->Wait().ok());
    }
    const auto received = job.Submit(1, receive);
    if (!send_first) sent = job.Submit(0, send);
    const Status status = received->Wait();
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(StatusCode::kInvalidArgument));
    EXPECT_THAT(status.message(),
                HasSubstr("rank 1 expects float32 [2,2] from rank 0, which sent int32 [4] "
                          "(HcomSend 'give')"));
    if (!send_first) {
      EXPECT_EQ(sent->Message(), status.message());
    }
    EXPECT_TRUE(job.WaitForCounter(0, "cells_in_use", 0));
    EXPECT_TRUE(job.WaitForCounter(0, "messages_buffered", 0));
  }
}

TEST(CommMismatch, ThousandsOfTensorsInOneBroadcast) {
  Job job(3);
  job.Start();
  Ask ask;
  ask.collective = Collective::kBroadcast;
  ask.shapes.assign(5000, {1, 2, 1});
  for (std::int32_t i = 0; i < 10; ++i) {
    Job::ExpectOk(job.SubmitOnAll(ask));
    Ask other = ask;
    other.shapes[4321] = {2, 1, 1};
    const std::string text =
        Job::ExpectSameFailure({job.Submit(0, ask), job.Submit(1, other), job.Submit(2, ask)},
                               StatusCode::kInvalidArgument);
    EXPECT_THAT(text, HasSubstr("rank 1 passed float32 [2,1,1] for tensor 4321 of 5000"));
    EXPECT_LT(text.size(), 1000u);
  }
  EXPECT_EQ(job.Counter(0, "cells_in_use"), 0);
  EXPECT_EQ(job.Counter(0, "descriptor_bytes_in_use"), 0);
}

// Bytes in shared memory may be anybody's: they are read without trust.
TEST(CommFingerprint, DamagedBytesAreRefused) {
  CollectiveRequest request;
  request.collective = Collective::kAllToAllVC;
  request.node_name = "node";
  request.tag = "tag";
  CollectiveTensor tensor;
  tensor.type = DataType::kFloat32;
  tensor.shape = {2, 3};
  tensor.name = "kernel:0";
  request.tensors = {tensor};
  request.absent_entries = {3};
  request.count_matrices = {{1, 2, 3, 4}};
  const std::string agreement = comm::EncodeAgreement(request);
  const std::string own = comm::EncodeOwn(request);
  comm::Fingerprint read;
  ASSERT_TRUE(comm::Decode(agreement, own, &read));
  EXPECT_EQ(read.tag, "tag");
  EXPECT_EQ(read.count_matrices, request.count_matrices);
  EXPECT_EQ(read.tensors[0].name, "kernel:0");
  EXPECT_EQ(read.absent_entries, request.absent_entries);
  EXPECT_EQ(read.Describe(), "HcomAllToAllVC 'node' float32 [2,3]");
  for (std::size_t cut = 0; cut < agreement.size(); ++cut) {
    EXPECT_FALSE(comm::Decode(agreement.substr(0, cut), own, &read));
  }
  for (std::size_t cut = 0; cut < own.size(); ++cut) {
    EXPECT_FALSE(comm::Decode(agreement, own.substr(0, cut), &read));
  }
  // Whatever a byte becomes, nothing is read past the end (the sanitizers watch) and no absurd
  // amount of memory is asked for.
  for (std::size_t i = 0; i < agreement.size() + own.size(); ++i) {
    for (int value : {0, 1, 127, 128, 255}) {
      std::string bad_agreement = agreement;
      std::string bad_own = own;
      (i < agreement.size() ? bad_agreement[i] : bad_own[i - agreement.size()]) =
          static_cast<char>(value);
      if (comm::Decode(bad_agreement, bad_own, &read)) read.Describe();
    }
  }
}

}  // namespace
}  // namespace comm_test
}  // namespace npu_bridge
