// What a rank does alone: ops of a group of one, and messages to itself. No transport, no table.
#ifndef NPU_BRIDGE_CSRC_COMM_LOCAL_EXCHANGE_H_
#define NPU_BRIDGE_CSRC_COMM_LOCAL_EXCHANGE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "csrc/comm/group_table.h"
#include "csrc/common/collective_request.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace comm {

struct Operation;

// The identity that every collective is in a group of one. Not for send and receive.
Status RunAlone(const CollectiveRequest& request, const Group& group,
                std::vector<CollectiveResult>* results);

// Messages of this rank to itself, in order within (group, sr_tag).
class SelfMailbox {
 public:
  struct Message {
    DataType type = DataType::kInvalid;
    std::vector<std::int64_t> shape;
    std::vector<char> bytes;
    std::string node_name;
  };

  // Buffers the bytes. Gives the receive that already waits for them, if one does.
  std::shared_ptr<Operation> Send(const CollectiveRequest& request, const Group& group,
                                  Message* message);
  // True with the message; else `operation` waits for one.
  bool Receive(const std::shared_ptr<Operation>& operation, const CollectiveRequest& request,
               const Group& group, Message* message);
  // The receive waits no more.
  void Forget(const std::shared_ptr<Operation>& operation, const CollectiveRequest& request,
              const Group& group);
  std::vector<std::shared_ptr<Operation>> Waiting();

  // Checks the message against the receive and copies it into the result.
  static Status Deliver(const CollectiveRequest& request, const Group& group,
                        const Message& message, std::vector<CollectiveResult>* results);

 private:
  using Key = std::pair<std::uint64_t, std::int64_t>;  // group identity, sr_tag

  struct Queue {
    std::deque<Message> messages;
    std::deque<std::shared_ptr<Operation>> receives;
  };

  std::mutex mutex_;
  std::map<Key, Queue> queues_;  // none is empty
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_LOCAL_EXCHANGE_H_
