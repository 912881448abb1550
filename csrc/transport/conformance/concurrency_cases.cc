// Many requests at once: in any order, in several groups, ended early.
#include "csrc/transport/conformance/cases.h"
#include "csrc/transport/conformance/plan.h"
#include "csrc/transport/conformance/slow_build.h"

namespace npu_bridge {
namespace conformance {
namespace {

const std::vector<int> kSizes = {2, 3, 4, 8};

Description Describe(Collective collective, std::uint64_t count, std::uint64_t number) {
  Description description;
  description.collective = collective;
  description.types = {DataType::kFloat32};
  description.counts = {count};
  description.number = number;
  return description;
}

// Ops of all kinds and sizes, each rank starting them in an order of its own.
void ManyInFlight(Rank& rank) {
  const std::vector<Collective> kinds = {Collective::kAllReduce, Collective::kAllGather,
                                         Collective::kBroadcast, Collective::kReduce,
                                         Collective::kAllToAllV, Collective::kReduceScatter};
  for (std::uint64_t round = 0; round < Repeats(3); ++round) {
    std::vector<Description> descriptions;
    for (std::uint64_t i = 0; i < 240; ++i) {
      const std::uint64_t number = 1 + round * 1000 + i;
      const std::uint64_t count = i % 5 == 0 ? 9001 : 1 + i * 7 % 900;
      Description description = Describe(kinds[i % kinds.size()], count, number);
      description.root = static_cast<std::int32_t>(i) % rank.size();
      descriptions.push_back(description);
    }
    for (std::uint64_t i = 0; i < 40; ++i) {
      Description description = Describe(Collective::kSend, 10 + i * 300, 1 + round * 100 + i);
      description.peer_shift = static_cast<std::int32_t>(i);
      descriptions.push_back(description);
      description.collective = Collective::kReceive;
      descriptions.push_back(description);
    }
    RunAll(rank, rank.world(), descriptions, round + 1);
    rank.Barrier();
  }
}

// The same few slots serve requests of all kinds in turn, while others are in flight beside them.
void SlotsServeEveryKind(Rank& rank) {
  const std::vector<Collective> kinds = {Collective::kAllToAllV, Collective::kAllReduce,
                                         Collective::kAllGather, Collective::kBroadcast,
                                         Collective::kReduce,    Collective::kReduceScatter};
  for (std::uint64_t round = 0; round < Repeats(60); ++round) {
    std::vector<Description> descriptions;
    for (std::uint64_t slot = 1; slot <= 8; ++slot) {
      // Numbers that far apart share a slot.
      descriptions.push_back(Describe(kinds[(round * 5 + slot) % kinds.size()],
                                      slot % 3 == 0 ? 11 : 9001, round * 4096 + slot));
    }
    RunAll(rank, rank.world(), descriptions, round + 1);
    rank.Barrier();
  }
}

// Every send is done before any receive begins, whatever its size.
void SendBeforeReceive(Rank& rank) {
  std::vector<std::unique_ptr<PlannedCall>> sends;
  std::vector<Description> receives;
  for (std::uint64_t i = 0; i < 8; ++i) {
    Description description = Describe(Collective::kSend, i % 2 == 0 ? 3 : 10 * kLarge, 1 + i);
    sends.push_back(std::make_unique<PlannedCall>(description, rank.index(), rank.size()));
    sends.back()->Start(rank.world());
    rank.ExpectOk(sends.back()->call().Wait(), "send without a receiver");
    description.collective = Collective::kReceive;
    receives.push_back(description);
  }
  rank.Barrier();
  RunAll(rank, rank.world(), receives, 5);
}

// Groups that overlap, with members in another order than the world's, all in use together.
void OverlappingGroups(Rank& rank) {
  const std::int32_t size = rank.size();
  std::vector<std::int32_t> reversed;
  std::vector<std::int32_t> even;
  std::vector<std::int32_t> low;
  for (std::int32_t r = size - 1; r >= 0; --r) reversed.push_back(r);
  for (std::int32_t r = 0; r < size; r += 2) even.push_back(r);
  for (std::int32_t r = 0; r < (size + 1) / 2; ++r) low.push_back(r);
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<PlannedCall>> calls;
  std::uint64_t number = 1;
  for (int round = 0; round < 5; ++round) {
    for (const auto& members : {reversed, even, low}) {
      std::vector<Description> wanted;
      for (const Collective kind : {Collective::kAllReduce, Collective::kAllGather,
                                    Collective::kReduceScatter, Collective::kAllToAllV}) {
        wanted.push_back(Describe(kind, 3000, number++));
      }
      bool is_member = false;
      for (const std::int32_t member : members) is_member |= member == rank.index();
      if (!is_member) continue;
      groups.push_back(rank.MakeGroup(members));
      if (groups.back() == nullptr) return;
      const Group& group = *groups.back();
      // Reversed on odd ranks, so that no two groups are started in one order everywhere.
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const std::size_t at = rank.index() % 2 == 0 ? i : wanted.size() - 1 - i;
        calls.push_back(std::make_unique<PlannedCall>(wanted[at], group.rank, group.size));
        calls.back()->Start(group);
      }
    }
  }
  for (const auto& call : calls) call->Check(rank);
  calls.clear();
}

// One rank never comes. Cancelled on each of the others, the request ends there with the reason;
// the slot serves the next request, and nothing stays behind.
void Cancellation(Rank& rank) {
  const std::vector<Collective> kinds = {Collective::kAllReduce, Collective::kAllGather,
                                         Collective::kReduceScatter, Collective::kAllToAllV,
                                         Collective::kReduce};
  const std::int64_t before = rank.Counter("pool_blocks_in_use");
  rank.Barrier();
  const int absent = rank.size() - 1;
  std::uint64_t number = 1;
  for (const Collective kind : kinds) {
    for (const std::uint64_t count : {std::uint64_t{5}, kLarge}) {
      Description description = Describe(kind, count, number);
      PlannedCall call(description, rank.index(), rank.size());
      if (rank.index() != absent) {
        call.Start(rank.world());
        if (call.call().is_done() && kind != Collective::kReduce) {
          rank.Fail(description.Name() + " ended without one of its ranks");
        }
        rank.world().Cancel(number, Cancelled("a test ends it"));
        const Status& status = call.call().Wait();
        // Ranks that a reduce gives nothing new may be done before.
        const bool may_be_ok = kind == Collective::kReduce && rank.index() != description.root;
        if (!(status.ok() && may_be_ok) &&
            (status.code() != StatusCode::kCancelled || status.message() != "a test ends it")) {
          rank.Fail(description.Name() + " ended with " + status.message());
        }
      }
      // The late rank comes when the others have gone; it is cancelled as well.
      rank.Barrier();
      if (rank.index() == absent && count == 5) {
        call.Start(rank.world());
        rank.world().Cancel(number, Cancelled("a test ends it"));
        const Status& status = call.call().Wait();
        if (!status.ok() && status.code() != StatusCode::kCancelled) {
          rank.Fail("late " + description.Name() + " ended with " + status.message());
        }
      }
      rank.Barrier();
      // In the same slot.
      description.number = number + 4096;
      RunAll(rank, rank.world(), {description}, 0);
      rank.Barrier();
      ++number;
    }
  }
  const std::int64_t after = rank.Counter("pool_blocks_in_use");
  if (after != before) {
    rank.Fail("cancelled requests left " + std::to_string(after - before) + " blocks in use");
  }
  rank.Barrier();
}

// A request that is cancelled while all its ranks are in it ends everywhere, well or cancelled.
void CancelledOnTheWay(Rank& rank) {
  for (std::uint64_t number = 1; number <= Repeats(200); ++number) {
    const Description description =
        Describe(number % 2 == 0 ? Collective::kAllReduce : Collective::kAllToAllV,
                 number % 3 == 0 ? 60013 : 200, number);
    PlannedCall call(description, rank.index(), rank.size());
    call.Start(rank.world());
    if (number % static_cast<std::uint64_t>(rank.size()) ==
        static_cast<std::uint64_t>(rank.index())) {
      rank.world().Cancel(number, Cancelled("a test ends it"));
    }
    rank.Barrier();
    rank.world().Cancel(number, Cancelled("a test ends it"));
    const Status& status = call.call().Wait();
    if (status.ok()) {
      call.CheckResults(rank);
    } else if (status.code() != StatusCode::kCancelled) {
      rank.Fail(description.Name() + " ended with " + status.message());
    }
    rank.Barrier();
  }
  if (rank.Counter("operations_in_flight") > 0) rank.Fail("operations are still in flight");
}

// Cancelling what is not there, or has ended, does nothing.
void CancelUnknown(Rank& rank) {
  rank.world().Cancel(123456789, Cancelled("nobody"));
  RunAll(rank, rank.world(), {Describe(Collective::kAllReduce, 100, 1)}, 0);
  rank.world().Cancel(1, Cancelled("too late"));
  RunAll(rank, rank.world(), {Describe(Collective::kAllReduce, 100, 2)}, 0);
}

}  // namespace

std::vector<Case> ConcurrencyCases() {
  return {
      OneWorldCase("ManyInFlightInAnyOrder", kSizes, ManyInFlight),
      OneWorldCase("SlotsServeEveryKind", kSizes, SlotsServeEveryKind),
      OneWorldCase("SendIsDoneBeforeReceive", {1, 2, 4}, SendBeforeReceive),
      OneWorldCase("OverlappingGroups", kSizes, OverlappingGroups),
      OneWorldCase("CancelEndsEveryRank", kSizes, Cancellation),
      OneWorldCase("CancelledOnTheWay", {2, 4}, CancelledOnTheWay),
      OneWorldCase("CancelOfUnknownRequests", {2}, CancelUnknown),
  };
}

}  // namespace conformance
}  // namespace npu_bridge
