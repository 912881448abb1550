#include "csrc/comm/control/matching.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>

namespace npu_bridge {
namespace control {
namespace {

using Members = std::vector<std::size_t>;
using std::chrono::milliseconds;

// Addresses in numeric order, however they are written; what is no address comes last.
std::tuple<int, std::string> AddressOrder(const std::string& text) {
  std::array<char, sizeof(in6_addr)> bytes = {};
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) {
    return {0, std::string(bytes.data(), sizeof(in_addr))};
  }
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) {
    return {1, std::string(bytes.data(), sizeof(in6_addr))};
  }
  return {2, text};
}

// What is unique to each rank of a job; sorts in rank order.
using RankKey = std::tuple<std::int32_t, bool, std::tuple<int, std::string>, std::int32_t>;

RankKey KeyOf(const Claim& claim) {
  if (!claim.unnumbered) return {claim.rank, false, {0, ""}, 0};
  const auto address = AddressOrder(claim.worker_address);
  return {0, address != AddressOrder(claim.chief_address), address, claim.device};
}

// Claims of one size (and kind of numbering) can make a world.
using Pool = std::pair<bool, std::int32_t>;
Pool PoolOf(const Claim& claim) { return {claim.unnumbered, claim.size}; }

using Family = std::tuple<pid_t, Fingerprint, Fingerprint>;
Family FamilyOf(const Claim& claim) {
  return {claim.process.session, claim.process.directory, claim.process.command};
}

class Matcher {
 public:
  Matcher(const std::vector<Waiting>& waiting, milliseconds now, const MatchingPatience& patience,
          const RelativeProbe& probe)
      : waiting_(waiting), now_(now), patience_(patience), probe_(probe) {
    for (std::size_t i = 0; i < waiting.size(); ++i) left_.push_back(i);
    SortByStart();
  }

  MatchOutcome Run() {
    for (const auto& group : GroupLeft([](const Claim& claim) {
           return std::make_tuple(PoolOf(claim), FamilyOf(claim), claim.process.parent);
         })) {
      FormAll(group.second);
    }
    for (const auto& group : GroupLeft(
             [](const Claim& claim) { return std::make_tuple(PoolOf(claim), FamilyOf(claim)); })) {
      FormAll(group.second);
    }
    for (const auto& group : GroupLeft(PoolOf)) FormUnequal(group.second);
    for (const auto& group : GroupLeft(FamilyOf)) RefuseContradictions(group.second);
    return std::move(outcome_);
  }

 private:
  template <typename Function>
  std::map<std::invoke_result_t<Function, const Claim&>, Members> GroupLeft(Function key) const {
    std::map<std::invoke_result_t<Function, const Claim&>, Members> groups;
    for (const std::size_t i : left_) groups[key(ClaimOf(i))].push_back(i);
    return groups;
  }

  const Claim& ClaimOf(std::size_t i) const { return waiting_[i].claim; }

  void SortByStart() {
    // Process ids order those that started within one tick of the clock. They begin anew at the
    // bottom now and then; one so far below another of its tick came after that.
    constexpr pid_t kWrapped = 16384;
    std::map<std::uint64_t, pid_t> highest;
    for (const std::size_t i : left_) {
      const ProcessIdentity& process = ClaimOf(i).process;
      pid_t& known = highest[process.start_time];
      known = std::max(known, process.process);
    }
    const auto order = [&](std::size_t i) {
      const ProcessIdentity& process = ClaimOf(i).process;
      const bool wrapped = highest[process.start_time] - process.process > kWrapped;
      return std::make_tuple(process.start_time, wrapped, process.process, i);
    };
    std::sort(left_.begin(), left_.end(),
              [&](std::size_t a, std::size_t b) { return order(a) < order(b); });
  }

  std::map<RankKey, Members> ByRank(const Members& members) const {
    std::map<RankKey, Members> by_rank;
    for (const std::size_t i : members) by_rank[KeyOf(ClaimOf(i))].push_back(i);
    return by_rank;
  }

  bool AllRanksIn(const std::map<RankKey, Members>& by_rank) const {
    const Claim& any = ClaimOf(by_rank.begin()->second.front());
    return by_rank.size() == static_cast<std::size_t>(any.size);
  }

  // Whether nobody has come to the members for that long; if not, notes when it will be so.
  bool QuietFor(const Members& members, milliseconds wanted) {
    milliseconds last{0};
    for (const std::size_t i : members) last = std::max(last, waiting_[i].arrived);
    const milliseconds due = last + wanted;
    if (now_ >= due) return true;
    AskAgainAfter(due - now_);
    return false;
  }

  void AskAgainAfter(milliseconds wait) {
    outcome_.ask_again_after = outcome_.ask_again ? std::min(outcome_.ask_again_after, wait) : wait;
    outcome_.ask_again = true;
  }

  // Whether to go on without relatives that have started but not come.
  bool RelativesSettled(const Members& members, milliseconds patience) {
    std::map<Family, Members> families;
    for (const std::size_t i : members) families[FamilyOf(ClaimOf(i))].push_back(i);
    for (const auto& family : families) {
      // The same is asked for at each stage, and the probe reads all of /proc.
      const auto asked = std::make_pair(family.first, CommonParent(family.second));
      const auto known = probed_.find(asked);
      const bool found =
          known != probed_.end() ? known->second : (probed_[asked] = probe_(family.second));
      if (found && !QuietFor(members, patience)) {
        // The relative may also end without coming.
        AskAgainAfter(milliseconds(250));
        return false;
      }
    }
    return true;
  }

  pid_t CommonParent(const Members& members) const {
    const pid_t parent = ClaimOf(members.front()).process.parent;
    const bool common = std::all_of(members.begin(), members.end(), [&](std::size_t i) {
      return ClaimOf(i).process.parent == parent;
    });
    return common ? parent : -1;
  }

  void Take(const Members& taken) {
    for (const std::size_t i : taken) left_.erase(std::find(left_.begin(), left_.end(), i));
  }

  void FormAll(Members members) {
    while (!members.empty()) {
      const auto by_rank = ByRank(members);
      if (!AllRanksIn(by_rank) || !RelativesSettled(members, patience_.relative)) return;
      Members world;
      for (const auto& rank : by_rank) world.push_back(rank.second.front());
      Take(world);
      for (const std::size_t i : world) members.erase(std::find(members.begin(), members.end(), i));
      outcome_.worlds.push_back(std::move(world));
    }
  }

  void FormUnequal(const Members& members) {
    const auto by_rank = ByRank(members);
    if (!AllRanksIn(by_rank) || by_rank.size() != members.size()) return;
    if (!QuietFor(members, patience_.unequal)) return;
    FormAll(members);
  }

  void RefuseContradictions(const Members& family) {
    std::string text = UnequalSizes(family);
    for (const auto& group : GroupByPool(family)) {
      if (!text.empty()) break;
      text = ClaimedTwice(group.second);
    }
    if (text.empty() || !QuietFor(family, patience_.conflict) ||
        !RelativesSettled(family, patience_.relative_at_conflict)) {
      return;
    }
    Take(family);
    outcome_.refusals.push_back({family, InvalidArgument(std::move(text))});
  }

  std::map<Pool, Members> GroupByPool(const Members& members) const {
    std::map<Pool, Members> pools;
    for (const std::size_t i : members) pools[PoolOf(ClaimOf(i))].push_back(i);
    return pools;
  }

  std::string UnequalSizes(const Members& family) const {
    const auto pools = GroupByPool(family);
    if (pools.size() < 2) return std::string();
    const Claim& one = ClaimOf(pools.begin()->second.front());
    const Claim& other = ClaimOf(pools.rbegin()->second.front());
    if (one.unnumbered != other.unnumbered) {
      return "of the ranks of one job, " + DescribeClaim(one) + " is numbered by RANK_ID and " +
             DescribeClaim(other) + " by CM_* variables. Describe all ranks in the same way.";
    }
    const std::string variable = one.unnumbered ? "CM_WORKER_SIZE" : "RANK_SIZE";
    return DescribeClaim(one) + " was started with " + variable + "=" + std::to_string(one.size) +
           ", " + DescribeClaim(other) + " with " + variable + "=" + std::to_string(other.size) +
           ". All ranks of a job must have the same " + variable +
           ". If they belong to two jobs, set JOB_ID to a value of its own for each job.";
  }

  std::string ClaimedTwice(const Members& members) const {
    const auto by_rank = ByRank(members);
    const Claim& any = ClaimOf(members.front());
    for (const auto& rank : by_rank) {
      if (rank.second.size() < 2) continue;
      const Claim& one = ClaimOf(rank.second[0]);
      const Claim& other = ClaimOf(rank.second[1]);
      std::string text = NameOfClaim(one) + " of " + std::to_string(any.size) +
                         " is claimed by two processes: pid " +
                         std::to_string(one.process.process) + " (" + one.process.command_text +
                         ") and pid " + std::to_string(other.process.process) + " (" +
                         other.process.command_text + "), while ";
      const Attendance attendance = AttendanceOf(waiting_, rank.second[0]);
      text += attendance.missing.empty()
                  ? std::to_string(attendance.missing_count) + " of the others have"
                  : (attendance.missing.size() == 1 ? "rank " : "ranks ") +
                        FormatRanks(attendance.missing) +
                        (attendance.missing.size() == 1 ? " has" : " have");
      text +=
          " not come. If they belong to two jobs, set JOB_ID to a value of its own for each "
          "job; if to one, give each process ";
      text += any.unnumbered ? "a device of its own (DEVICE_ID)." : "a RANK_ID of its own.";
      return text;
    }
    if (by_rank.size() > static_cast<std::size_t>(any.size)) {
      std::string text = std::to_string(members.size()) + " processes came for a job of " +
                         std::to_string(any.size) + " ranks:";
      for (const std::size_t i : members) text += " " + DescribeClaim(ClaimOf(i)) + ";";
      text.back() = '.';
      return text + " If they belong to several jobs, set JOB_ID to a value of its own for each.";
    }
    return std::string();
  }

  const std::vector<Waiting>& waiting_;
  const milliseconds now_;
  const MatchingPatience& patience_;
  const RelativeProbe& probe_;
  Members left_;  // by start of the process
  std::map<std::pair<Family, pid_t>, bool> probed_;
  MatchOutcome outcome_;
};

bool EachRankOnce(const std::vector<Waiting>& waiting, const Members& members) {
  std::set<RankKey> seen;
  for (const std::size_t i : members) {
    if (!seen.insert(KeyOf(waiting[i].claim)).second) return false;
  }
  return true;
}

}  // namespace

MatchOutcome Match(const std::vector<Waiting>& waiting, milliseconds now,
                   const MatchingPatience& patience, const RelativeProbe& relative_on_the_way) {
  return Matcher(waiting, now, patience, relative_on_the_way).Run();
}

std::vector<std::size_t> WaitTogether(const std::vector<Waiting>& waiting, std::size_t which) {
  const Claim& claim = waiting[which].claim;
  const auto select = [&](auto same) {
    Members members;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (PoolOf(waiting[i].claim) == PoolOf(claim) && same(waiting[i].claim)) members.push_back(i);
    }
    std::sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
      return KeyOf(waiting[a].claim) < KeyOf(waiting[b].claim);
    });
    return members;
  };
  Members together = select([](const Claim&) { return true; });
  if (EachRankOnce(waiting, together)) return together;
  together = select([&](const Claim& other) { return FamilyOf(other) == FamilyOf(claim); });
  if (EachRankOnce(waiting, together)) return together;
  together = select([&](const Claim& other) {
    return FamilyOf(other) == FamilyOf(claim) && other.process.parent == claim.process.parent;
  });
  if (EachRankOnce(waiting, together)) return together;
  return {which};
}

Attendance AttendanceOf(const std::vector<Waiting>& waiting, std::size_t which) {
  const Claim& claim = waiting[which].claim;
  const Members together = WaitTogether(waiting, which);
  Attendance attendance;
  attendance.size = claim.size;
  attendance.is_lowest = together.front() == which;
  std::set<std::int32_t> ranks;
  for (const std::size_t i : together) {
    ranks.insert(waiting[i].claim.rank);
    if (!attendance.present.empty()) attendance.present += ", ";
    attendance.present += NameOfClaim(waiting[i].claim) + " (pid " +
                          std::to_string(waiting[i].claim.process.process) + ")";
  }
  const auto size = static_cast<std::size_t>(claim.size);
  attendance.missing_count = static_cast<std::int32_t>(size - std::min(size, together.size()));
  if (!claim.unnumbered) {
    for (std::int32_t rank = 0; rank < claim.size; ++rank) {
      if (ranks.count(rank) == 0) attendance.missing.push_back(rank);
    }
  }
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (std::find(together.begin(), together.end(), i) != together.end()) continue;
    if (!attendance.remarks.empty()) attendance.remarks += ", ";
    attendance.remarks +=
        DescribeClaim(waiting[i].claim) + " of " + std::to_string(waiting[i].claim.size);
  }
  return attendance;
}

}  // namespace control
}  // namespace npu_bridge
