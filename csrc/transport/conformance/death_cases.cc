// A rank is killed: the others end, get back what it held, and go on without it.
#include <signal.h>
#include <unistd.h>

#include "csrc/transport/conformance/cases.h"
#include "csrc/transport/conformance/plan.h"
#include "csrc/transport/conformance/slow_build.h"

namespace npu_bridge {
namespace conformance {
namespace {

Description Describe(Collective collective, std::uint64_t count, std::uint64_t number) {
  Description description;
  description.collective = collective;
  description.types = {DataType::kFloat32};
  description.counts = {count};
  description.number = number;
  return description;
}

[[noreturn]] void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

// What the caller does on the ranks that are left, and what must be so afterwards.
void GoOnWithout(Rank& rank, int dead, std::vector<std::unique_ptr<PlannedCall>>* calls) {
  rank.shared().WaitUntilDead(dead);
  rank.RankGone(dead);
  for (const auto& call : *calls) {
    rank.world().Cancel(call->call().match_id, Internal("rank died"));
    const Status& status = call->call().Wait();
    if (!status.ok() && status.message() != "rank died") {
      rank.Fail(call->description().Name() + " ended with: " + status.message());
    }
  }
  calls->clear();
  rank.Barrier();
  std::vector<std::int32_t> others;
  for (std::int32_t r = 0; r < rank.size(); ++r) {
    if (r != dead) others.push_back(r);
  }
  {
    const std::unique_ptr<Group> group = rank.MakeGroup(others);
    // In the slots of the requests that the dead rank was in: what it gave to ranks that never came
    // for it is let go when the slot serves again.
    std::vector<Description> more;
    for (std::uint64_t i = 0; i < 40; ++i) {
      more.push_back(Describe(i % 2 == 0 ? Collective::kAllReduce : Collective::kAllGather,
                              i % 4 < 2 ? 100 : kLarge, 4097 + i));
    }
    if (group != nullptr) RunAll(rank, *group, more, 3);
  }
  rank.Barrier();
  const std::int64_t in_use = rank.Counter("pool_blocks_in_use");
  if (in_use > 0) {
    rank.Fail(std::to_string(in_use) + " blocks are in use after a death and all releases");
  }
  rank.Barrier();
}

using Dying = std::function<void(Rank&)>;

// `die` runs on the last rank; the others start the same requests.
Case DeathCase(const std::string& name, std::vector<Description> started, Dying die,
               std::vector<int> sizes = {2, 4}) {
  Case made;
  made.name = name;
  made.sizes = std::move(sizes);
  made.needs_processes = true;
  made.run = [started, die](Cluster& cluster, int size) {
    WorldOptions options;
    options.size = size;
    const int doomed = size - 1;
    return cluster.Run(
        options,
        [&](Rank& rank) {
          if (rank.index() == doomed) {
            die(rank);
            Die();
          }
          std::vector<std::unique_ptr<PlannedCall>> calls;
          for (const Description& description : started) {
            calls.push_back(std::make_unique<PlannedCall>(description, rank.index(), rank.size()));
            calls.back()->Start(rank.world());
          }
          GoOnWithout(rank, doomed, &calls);
        },
        doomed);
  };
  return made;
}

std::vector<Description> AllKinds() {
  std::vector<Description> all;
  std::uint64_t number = 1;
  for (const Collective kind :
       {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter,
        Collective::kAllGather, Collective::kBroadcast, Collective::kAllToAllV}) {
    for (const std::uint64_t count : {std::uint64_t{9}, kLarge}) {
      all.push_back(Describe(kind, count, number++));
    }
  }
  return all;
}

// While requests run: the others do not wait for the death to begin the next one.
Case InTheMiddle() {
  Case made;
  made.name = "KilledInTheMiddle";
  made.sizes = {2, 4};
  made.needs_processes = true;
  made.run = [](Cluster& cluster, int size) {
    WorldOptions options;
    options.size = size;
    const int doomed = size - 1;
    return cluster.Run(
        options,
        [&](Rank& rank) {
          std::vector<std::unique_ptr<PlannedCall>> calls;
          for (std::uint64_t number = 1; number <= 60; ++number) {
            calls.push_back(std::make_unique<PlannedCall>(
                Describe(number % 2 == 0 ? Collective::kAllReduce : Collective::kAllToAllV,
                         10 * kLarge / (number % 7 + 1), number),
                rank.index(), rank.size()));
          }
          if (rank.index() == doomed) alarm(120);
          for (std::size_t i = 0; i < calls.size(); ++i) {
            // The last requests are started, not finished.
            if (rank.index() == doomed && i == calls.size() - 3) Die();
            calls[i]->Start(rank.world());
          }
          GoOnWithout(rank, doomed, &calls);
        },
        doomed);
  };
  return made;
}

}  // namespace

std::vector<Case> DeathCases() {
  return {
      DeathCase("KilledBeforeItStarts", AllKinds(), [](Rank&) {}),
      DeathCase("KilledWhileItWaits", {},
                [](Rank& rank) {
                  static std::vector<std::unique_ptr<PlannedCall>> calls;
                  for (const Description& description : AllKinds()) {
                    calls.push_back(
                        std::make_unique<PlannedCall>(description, rank.index(), rank.size()));
                    calls.back()->Start(rank.world());
                  }
                },
                // Two ranks must be left, or no slot is used again.
                {3, 4}),
      DeathCase("KilledWithItsResults", AllKinds(),
                [](Rank& rank) {
                  static std::vector<std::unique_ptr<PlannedCall>> calls;
                  for (const Description& description : AllKinds()) {
                    calls.push_back(
                        std::make_unique<PlannedCall>(description, rank.index(), rank.size()));
                    calls.back()->Start(rank.world());
                  }
                  for (const auto& call : calls) call->Check(rank);
                }),
      InTheMiddle(),
  };
}

}  // namespace conformance
}  // namespace npu_bridge
