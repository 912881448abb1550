// Results whose memory the transport hands out. They pass as well where it fills the caller's.
#include <algorithm>
#include <cstring>
#include <random>

#include "csrc/transport/conformance/cases.h"
#include "csrc/transport/conformance/plan.h"
#include "csrc/transport/conformance/slow_build.h"

namespace npu_bridge {
namespace conformance {
namespace {

const std::vector<int> kSizes = {1, 2, 4, 8};

const std::vector<Collective> kKinds = {Collective::kAllReduce,     Collective::kAllGather,
                                        Collective::kBroadcast,     Collective::kReduce,
                                        Collective::kReduceScatter, Collective::kAllToAllV};

Description Describe(Collective collective, std::uint64_t number) {
  Description description;
  description.collective = collective;
  description.types = {DataType::kFloat32, DataType::kFloat32};
  description.counts = {kLarge, 100};
  description.number = number;
  return description;
}

// Results are held while others come, and let go in any order, one tensor at a time.
void HeldResults(Rank& rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank.index()) + 1);
  std::vector<std::unique_ptr<PlannedCall>> held;
  for (std::uint64_t number = 1; number <= 60; ++number) {
    held.push_back(std::make_unique<PlannedCall>(Describe(kKinds[number % kKinds.size()], number),
                                                 rank.index(), rank.size()));
    held.back()->Start(rank.world());
    held.back()->Check(rank);
    if (held.size() > 12) {
      std::shuffle(held.begin(), held.end(), random);
      held.back()->CheckResults(rank);
      held.back()->call().Release(1);
      held.back()->call().Release(0);
      held.pop_back();
    }
  }
  for (const auto& call : held) call->CheckResults(rank);
  held.clear();
  rank.Barrier();
  if (rank.Counter("pool_blocks_in_use") > 0)
    rank.Fail("blocks are in use though all are released");
  rank.Barrier();
}

// What one rank writes into its result reaches nobody, nor the next result in that memory.
void WritesStayPrivate(Rank& rank) {
  std::uint64_t number = 1;
  for (int round = 0; round < 3; ++round) {
    for (const Collective kind : kKinds) {
      PlannedCall call(Describe(kind, number++), rank.index(), rank.size());
      call.Start(rank.world());
      call.Check(rank);
      const Bytes copy(static_cast<char*>(call.call().data(0)),
                       static_cast<char*>(call.call().data(0)) + kLarge);
      rank.Barrier();
      if (rank.index() == 0 || round % 2 == 0) {
        std::memset(call.call().data(0), rank.index() + 1, kLarge);
      }
      rank.Barrier();
      if (rank.index() == 0 || round % 2 == 0) {
        const char* data = static_cast<const char*>(call.call().data(0));
        if (std::count(data, data + kLarge, static_cast<char>(rank.index() + 1)) !=
            static_cast<std::ptrdiff_t>(kLarge)) {
          rank.Fail(call.description().Name() + ": another rank's write came through");
        }
      } else {
        call.CheckResults(rank);
      }
      rank.Barrier();
    }
  }
}

void ResultsOutliveClose(Rank& rank) {
  std::vector<std::unique_ptr<PlannedCall>> calls;
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    calls.push_back(
        std::make_unique<PlannedCall>(Describe(kKinds[i], i + 1), rank.index(), rank.size()));
    calls.back()->Start(rank.world());
    calls.back()->Check(rank);
  }
  rank.Barrier();
  // Rank 0 leaves first; the others go on in what must not be its memory.
  if (rank.index() == 0) rank.Close();
  rank.Barrier();
  if (rank.index() != 0) {
    rank.RankGone(0);
    std::vector<std::int32_t> others;
    for (std::int32_t r = 1; r < rank.size(); ++r) others.push_back(r);
    const std::unique_ptr<Group> group = rank.MakeGroup(others);
    std::vector<Description> more;
    for (std::uint64_t i = 0; i < 30; ++i) more.push_back(Describe(kKinds[i % 6], 100 + i));
    if (group != nullptr) RunAll(rank, *group, more, 0);
  }
  rank.Barrier();
  for (const auto& call : calls) call->CheckResults(rank);
  rank.Close();
  for (const auto& call : calls) call->CheckResults(rank);
}

// A thousand requests take no more blocks than the first few.
void PoolIsReused(Rank& rank) {
  std::int64_t carved = 0;
  std::uint64_t number = 1;
  for (std::uint64_t step = 0; step < Repeats(200); ++step) {
    for (const Collective kind :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast,
          Collective::kReduceScatter, Collective::kAllToAllV}) {
      {
        PlannedCall call(Describe(kind, number++), rank.index(), rank.size());
        call.Start(rank.world());
        call.Check(rank);
        // All hold their results, then all have let go: how many blocks are needed is no accident.
        rank.Barrier();
      }
      rank.Barrier();
    }
    if (step == 1) carved = rank.Counter("pool_bytes_carved");
  }
  const std::int64_t after = rank.Counter("pool_bytes_carved");
  if (after > carved) {
    rank.Fail("the pool grew from " + std::to_string(carved) + " to " + std::to_string(after) +
              " bytes");
  }
  if (rank.Counter("pool_bytes_resident") > after) rank.Fail("more is resident than there is");
  rank.Barrier();
}

// The caller has no memory for a result on one rank: that rank's request fails, the others are
// cancelled as they would be by the caller.
void CallerHasNoMemory(Rank& rank) {
  std::uint64_t number = 1;
  for (const Collective kind : kKinds) {
    Description description = Describe(kind, number);
    description.counts = {7, 9};
    PlannedCall call(description, rank.index(), rank.size());
    call.call().refuse_memory = rank.index() == 0;
    call.Start(rank.world());
    if (rank.index() == 0 && call.call().Wait().code() != StatusCode::kResourceExhausted) {
      rank.Fail(description.Name() + " without memory ended with: " + call.call().Wait().message());
    }
    rank.Barrier();
    rank.world().Cancel(number++, Cancelled("rank 0 has no memory"));
    call.call().Wait();
    rank.Barrier();
  }
  Description description = Describe(Collective::kAllReduce, 1000);
  RunAll(rank, rank.world(), {description}, 0);
}

}  // namespace

std::vector<Case> MemoryCases() {
  return {
      OneWorldCase("HeldResultsKeepTheirBytes", kSizes, HeldResults),
      OneWorldCase("WritesStayPrivate", {2, 4}, WritesStayPrivate),
      OneWorldCase("ResultsOutliveClose", {2, 4}, ResultsOutliveClose),
      OneWorldCase("PoolIsReused", {2, 4}, PoolIsReused),
      OneWorldCase("CallerHasNoMemory", {1, 2, 4}, CallerHasNoMemory),
  };
}

}  // namespace conformance
}  // namespace npu_bridge
