// One order of a group's requests on all its ranks, for transports that need it: rank 0 of the
// group numbers the matched requests, and every rank starts them by number.
#ifndef NPU_BRIDGE_CSRC_COMM_ORDER_QUEUE_H_
#define NPU_BRIDGE_CSRC_COMM_ORDER_QUEUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "csrc/comm/operation.h"

namespace npu_bridge {
namespace comm {

class OrderQueue {
 public:
  explicit OrderQueue(Matching* matching) : matching_(matching) {}

  // For an operation in phase kOrdering; again whenever its cell has changed. Starts, through the
  // engine, whatever it is the turn of. True: the cell failed without a number and the operation,
  // now kDone, is the caller's to finish.
  bool Advance(const std::shared_ptr<Operation>& operation);

 private:
  struct GroupOrder {
    std::uint64_t next_to_announce = 1;  // rank 0 of the group
    std::uint64_t next_to_start = 1;
    bool draining = false;  // a thread is starting requests; others leave theirs to it
    std::map<std::uint64_t, std::shared_ptr<Operation>> ready;
  };

  void Drain(GroupOrder* order);

  Matching* const matching_;
  std::mutex mutex_;
  // By group identity, kept when a group is destroyed: its peers may count on. One entry for each
  // distinct group.
  std::map<std::uint64_t, GroupOrder> orders_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_ORDER_QUEUE_H_
