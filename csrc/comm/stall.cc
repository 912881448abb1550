#include "csrc/comm/stall.h"

#include <algorithm>
#include <map>
#include <utility>

#include "csrc/comm/clock.h"
#include "csrc/comm/deadlock_text.h"
#include "csrc/comm/messages.h"
#include "csrc/comm/operation.h"
#include "csrc/common/log.h"

namespace npu_bridge {
namespace comm {
namespace {

// Ranks in the group of the cell's members.
std::vector<std::int32_t> RanksOfMembers(const CollectiveRequest& request, const Group& group) {
  return Arrival(group, request).ranks;
}

std::string Seconds(std::int64_t seconds) { return std::to_string(seconds) + " s"; }

}  // namespace

Status StallInspector::FindGone(const Operation& operation) {
  CellView view;
  if (!operation.has_cell() || !matching_->View(operation.ref, &view)) return Status::Ok();
  if (view.state == CellState::kFailed) return Status::Ok();
  const CollectiveRequest& request = *operation.request;
  if (request.collective == Collective::kSend) return Status::Ok();  // waits for no receiver
  const Group& group = operation.group();
  const std::vector<std::int32_t> ranks = RanksOfMembers(request, group);
  for (std::size_t i = 0; i < ranks.size() && i < view.members.size(); ++i) {
    if (i == operation.ref.member || view.members[i].departed) continue;
    const std::int32_t world_rank = group.ranks[static_cast<std::size_t>(ranks[i])];
    const control::RankState state = channel_->state(world_rank);
    if (state == control::RankState::kAlive) continue;
    const std::string who = DescribeOp(request) + ": " + DescribeRank(group, ranks[i]);
    if (state == control::RankState::kLeft) {
      return Internal(who + " has left the job by a normal exit (" +
                      channel_->DescribeRank(world_rank) +
                      ") without coming to this op. All ranks must run the same steps.");
    }
    return Internal(who + " (" + channel_->DescribeRank(world_rank) + ") died " +
                    (view.members[i].arrived ? "in this op." : "before it came to this op."));
  }
  return Status::Ok();
}

std::vector<std::int32_t> StallInspector::Missing(const Operation& operation, bool* in_progress) {
  std::vector<std::int32_t> missing;
  CellView view;
  if (!matching_->View(operation.ref, &view)) return missing;
  const std::vector<std::int32_t> ranks = RanksOfMembers(*operation.request, operation.group());
  *in_progress = std::all_of(view.members.begin(), view.members.end(),
                             [](const MemberView& member) { return member.arrived; });
  for (std::size_t i = 0; i < ranks.size() && i < view.members.size(); ++i) {
    if (*in_progress ? !view.members[i].departed : !view.members[i].arrived) {
      missing.push_back(ranks[i]);
    }
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

Status StallInspector::FindExpired(const Operation& operation, std::int64_t now) {
  if (settings_.exec_timeout_s <= 0) return Status::Ok();
  if (now - operation.submitted_ns < settings_.exec_timeout_s * kNanosecondsPerSecond) {
    return Status::Ok();
  }
  const std::string op = DescribeOp(*operation.request);
  const std::string limit = Seconds(settings_.exec_timeout_s) + " (HCCL_EXEC_TIMEOUT)";
  if (!operation.has_cell()) {
    return DeadlineExceeded(op + ": " + DescribeRank(operation.group(), operation.group().rank) +
                            " waited " + limit +
                            " to receive from itself, but has not sent anything (sr_tag " +
                            std::to_string(operation.request->send_receive_tag) + ").");
  }
  bool in_progress = false;
  const std::vector<std::int32_t> missing = Missing(operation, &in_progress);
  if (missing.empty()) return Status::Ok();
  const std::string who = DescribeRanks(operation.group(), missing);
  if (in_progress) {
    return DeadlineExceeded(op + ": not finished after " + limit + "; " + who +
                            (missing.size() == 1 ? " is" : " are") +
                            " still in it. Was a process stopped?");
  }
  return DeadlineExceeded(op + ": waited " + limit + " for " + who + ", which did not come to it.");
}

void StallInspector::WarnOfStalls(const std::vector<std::shared_ptr<Operation>>& operations,
                                  std::int64_t now) {
  if (settings_.stall_warn_s <= 0) return;
  // By group and absent ranks: a late rank holds up many ops at once, and one line tells it.
  std::map<std::pair<std::uint64_t, std::vector<std::int32_t>>,
           std::vector<std::shared_ptr<Operation>>>
      stalls;
  for (const std::shared_ptr<Operation>& operation : operations) {
    if (operation->stall_told || !operation->has_cell() ||
        operation->phase.load() != Phase::kWaiting ||
        now - operation->submitted_ns < settings_.stall_warn_s * kNanosecondsPerSecond) {
      continue;
    }
    operation->stall_told = true;
    bool in_progress = false;
    std::vector<std::int32_t> missing = Missing(*operation, &in_progress);
    if (missing.empty() || in_progress || !matching_->ClaimWarning(operation->ref)) continue;
    stalls[{operation->group().identity, std::move(missing)}].push_back(operation);
  }
  for (const auto& stall : stalls) {
    const Operation& first = *stall.second.front();
    std::string text = DescribeOp(*first.request) + ": waiting for " +
                       DescribeRanks(first.group(), stall.first.second) + " for " +
                       Seconds((now - first.submitted_ns) / kNanosecondsPerSecond);
    if (stall.second.size() > 1) {
      text += ", as " + Count(static_cast<std::int64_t>(stall.second.size()) - 1, "other op") +
              " of this group";
    }
    text += settings_.exec_timeout_s > 0
                ? "; it becomes an error after " + Seconds(settings_.exec_timeout_s) +
                      " (HCCL_EXEC_TIMEOUT)."
                : ".";
    WriteLogLine(LogSeverity::kWarning, text);
  }
}

void StallInspector::FailDeadlocks(const std::vector<std::shared_ptr<Operation>>& operations,
                                   std::int64_t now) {
  if (settings_.mismatch_timeout_s <= 0) return;
  const std::int64_t limit = settings_.mismatch_timeout_s * kNanosecondsPerSecond;
  std::map<std::uint64_t, std::shared_ptr<Operation>> suspects;
  for (const std::shared_ptr<Operation>& operation : operations) {
    if (operation->has_cell() && operation->phase.load() == Phase::kWaiting &&
        now - operation->submitted_ns >= limit) {
      suspects[operation->group().identity] = operation;
    }
  }
  for (const auto& suspect : suspects) {
    if (now - table_->LastMovement(suspect.first) < limit) continue;
    FailDeadlock(suspect.second->group(), now);
  }
}

void StallInspector::FailDeadlock(const Group& group, std::int64_t now) {
  // One rank at a time: the second to look finds the cells failed.
  RobustLock lock(&table_->header()->detector_mutex);
  std::vector<CellView> waiting;
  std::vector<WaitsOfRank> by_rank(group.ranks.size());
  for (CellView& view : matching_->ViewGroup(group.identity)) {
    if (view.state == CellState::kFailed) continue;
    const bool point_to_point = view.key.point_to_point != 0;
    const bool all_there = std::all_of(view.members.begin(), view.members.end(),
                                       [](const MemberView& member) { return member.arrived; });
    const bool all_gone = std::all_of(view.members.begin(), view.members.end(),
                                      [](const MemberView& member) { return member.departed; });
    if (all_there && !all_gone) return;  // something moves
    if (view.state != CellState::kOpen || all_there) continue;
    if (point_to_point && view.members[0].arrived) {
      if (!view.members[0].departed) return;
      continue;  // sent, and nobody waits
    }
    for (std::size_t i = 0; i < view.members.size(); ++i) {
      if (!view.members[i].arrived) continue;
      // A receive's key holds source and destination.
      const std::size_t rank = point_to_point ? static_cast<std::uint32_t>(view.key.frame_id) : i;
      if (rank >= by_rank.size()) continue;
      // A point-to-point key holds ranks in place of a frame.
      const bool in_loop = !point_to_point && view.key.frame_id != 0;
      by_rank[rank].push_back({view.fingerprints[i], view.step, in_loop, view.key.iteration});
    }
    waiting.push_back(std::move(view));
  }
  for (const WaitsOfRank& waits : by_rank) {
    if (waits.empty()) return;  // that rank may still come
  }
  // What moved while the cells were read began a new term.
  const std::int64_t limit = settings_.mismatch_timeout_s * kNanosecondsPerSecond;
  if (now - table_->LastMovement(group.identity) < limit) return;
  const Status failure =
      InvalidArgument(DeadlockText(group, by_rank, Seconds(settings_.mismatch_timeout_s)));
  for (const CellView& view : waiting) {
    CellRef ref;
    ref.cell = view.cell;
    ref.match_id = view.match_id;
    ref.key = view.key;
    matching_->Fail(ref, failure);
  }
}

}  // namespace comm
}  // namespace npu_bridge
