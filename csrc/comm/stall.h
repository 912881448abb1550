// What becomes of requests that wait too long: warnings, deadlines, deadlocks, ranks that are gone.
#ifndef NPU_BRIDGE_CSRC_COMM_STALL_H_
#define NPU_BRIDGE_CSRC_COMM_STALL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/comm/cell_table.h"
#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/matching.h"
#include "csrc/common/settings.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace comm {

struct Operation;

// Used by the engine's thread, FindGone by any.
class StallInspector {
 public:
  StallInspector(const Settings& settings, CellTable* table, Matching* matching,
                 control::HostChannel* channel)
      : settings_(settings), table_(table), matching_(matching), channel_(channel) {}

  // Internal, naming the rank, when the operation needs a rank that has left or died.
  Status FindGone(const Operation& operation);

  // DeadlineExceeded, naming the ranks that are missing, once exec_timeout_s has passed.
  Status FindExpired(const Operation& operation, std::int64_t now);

  // One line on stderr for the operations of a group that have waited for the same ranks for
  // stall_warn_s; once an operation, by one rank.
  void WarnOfStalls(const std::vector<std::shared_ptr<Operation>>& operations, std::int64_t now);

  // Where all ranks of a group wait in it and nothing of it has moved for mismatch_timeout_s:
  // fails all that wait, on all ranks, with one text.
  void FailDeadlocks(const std::vector<std::shared_ptr<Operation>>& operations, std::int64_t now);

 private:
  // Ranks in the group that have not arrived; with `in_progress`, those that have not departed from
  // a cell that all have arrived in.
  std::vector<std::int32_t> Missing(const Operation& operation, bool* in_progress);
  void FailDeadlock(const Group& group, std::int64_t now);

  const Settings settings_;
  CellTable* const table_;
  Matching* const matching_;
  control::HostChannel* const channel_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_STALL_H_
