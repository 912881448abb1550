// Which of the processes that wait at one meeting point make up a world. A pure function: no
// sockets, no clock of its own.
//
// Many scripts give every job the same JOB_ID, or none, so that several jobs may wait at one point.
// What tells them apart is the process: ranks of one job usually have the same session, start
// directory and command line (a "family"), and often the same parent. Among ranks that even these
// do not tell apart, those pair that started in the same order.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_MATCHING_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_MATCHING_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "csrc/comm/control/messages.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

// How long nobody may have come before ...
struct MatchingPatience {
  // ... ranks of unequal families are taken as one job, when each rank is there exactly once.
  std::chrono::milliseconds unequal{2000};
  // ... contradictions in an incomplete family (a rank claimed twice, unequal sizes) are an error.
  std::chrono::milliseconds conflict{3000};
  // ... a relative that has started and not come is no longer waited for: it may be loading still.
  std::chrono::milliseconds relative{5000};
  std::chrono::milliseconds relative_at_conflict{10000};
};

struct Waiting {
  Claim claim;
  std::chrono::milliseconds arrived{0};  // on the clock of `now`
};

struct Refusal {
  std::vector<std::size_t> waiting;  // who gets it
  Status status;
};

struct MatchOutcome {
  std::vector<std::vector<std::size_t>> worlds;  // indices into `waiting`, in rank order
  std::vector<Refusal> refusals;
  // Set when time alone may change the outcome: ask again then.
  bool ask_again = false;
  std::chrono::milliseconds ask_again_after{0};
};

// Whether more ranks like these members have started and not arrived.
using RelativeProbe = std::function<bool(const std::vector<std::size_t>& members)>;

MatchOutcome Match(const std::vector<Waiting>& waiting, std::chrono::milliseconds now,
                   const MatchingPatience& patience, const RelativeProbe& relative_on_the_way);

// Those that wait for the same ranks as `waiting[which]`, as far as that can be told; sorted by
// rank, `which` included.
std::vector<std::size_t> WaitTogether(const std::vector<Waiting>& waiting, std::size_t which);

// Who is there and who is missing, from the view of `waiting[which]`.
Attendance AttendanceOf(const std::vector<Waiting>& waiting, std::size_t which);

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_MATCHING_H_
