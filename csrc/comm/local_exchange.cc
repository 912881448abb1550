#include "csrc/comm/local_exchange.h"

#include <algorithm>
#include <cstring>

#include "csrc/comm/fingerprint.h"
#include "csrc/comm/messages.h"
#include "csrc/comm/request_check.h"

namespace npu_bridge {
namespace comm {
namespace {

// Gives `result`, which knows its count, the memory for it.
Status Allocate(const CollectiveRequest& request, std::size_t index, std::uint64_t bytes,
                CollectiveResult* result) {
  result->data = request.allocate ? request.allocate(index, bytes) : nullptr;
  if (result->data != nullptr || bytes == 0) return Status::Ok();
  return ResourceExhausted(DescribeOp(request) + ": no memory for a result of " +
                           std::to_string(bytes) + " bytes.");
}

}  // namespace

Status RunAlone(const CollectiveRequest& request, const Group& group,
                std::vector<CollectiveResult>* results) {
  results->resize(request.tensors.size());
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    const CollectiveTensor& tensor = request.tensors[i];
    CollectiveResult* result = &(*results)[i];
    result->count = ResultCount(request, group, i);
    const std::size_t element = DataTypeSize(tensor.type);
    const std::size_t bytes = static_cast<std::size_t>(result->count) * element;
    Status status = Allocate(request, i, bytes, result);
    if (!status.ok()) return status;
    if (bytes == 0) continue;
    if (request.collective != Collective::kAllToAllV &&
        request.collective != Collective::kAllToAllVC) {
      std::memcpy(result->data, tensor.input, bytes);
      continue;
    }
    const AllToAllCounts counts = CountsOf(request, group, i);
    std::memset(result->data, 0, bytes);
    const auto moved = static_cast<std::size_t>(counts.send_counts[0]) * element;
    if (moved == 0) continue;
    std::memcpy(static_cast<char*>(result->data) +
                    static_cast<std::size_t>(counts.receive_displacements[0]) * element,
                static_cast<const char*>(tensor.input) +
                    static_cast<std::size_t>(counts.send_displacements[0]) * element,
                moved);
  }
  return Status::Ok();
}

std::shared_ptr<Operation> SelfMailbox::Send(const CollectiveRequest& request, const Group& group,
                                             Message* message) {
  const CollectiveTensor& tensor = request.tensors[0];
  message->type = tensor.type;
  message->shape = tensor.shape;
  message->node_name = request.node_name;
  const char* input = static_cast<const char*>(tensor.input);
  if (tensor.count > 0) {
    message->bytes.assign(
        input, input + static_cast<std::size_t>(tensor.count) * DataTypeSize(tensor.type));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const Key key(group.identity, request.send_receive_tag);
  Queue& queue = queues_[key];
  if (queue.receives.empty()) {
    queue.messages.push_back(std::move(*message));
    return nullptr;
  }
  std::shared_ptr<Operation> receive = queue.receives.front();
  queue.receives.pop_front();
  if (queue.receives.empty()) queues_.erase(key);
  return receive;
}

bool SelfMailbox::Receive(const std::shared_ptr<Operation>& operation,
                          const CollectiveRequest& request, const Group& group, Message* message) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Key key(group.identity, request.send_receive_tag);
  Queue& queue = queues_[key];
  if (queue.messages.empty()) {
    queue.receives.push_back(operation);
    return false;
  }
  *message = std::move(queue.messages.front());
  queue.messages.pop_front();
  if (queue.messages.empty()) queues_.erase(key);
  return true;
}

void SelfMailbox::Forget(const std::shared_ptr<Operation>& operation,
                         const CollectiveRequest& request, const Group& group) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = queues_.find(Key(group.identity, request.send_receive_tag));
  if (found == queues_.end()) return;
  auto& receives = found->second.receives;
  receives.erase(std::remove(receives.begin(), receives.end(), operation), receives.end());
  if (receives.empty() && found->second.messages.empty()) queues_.erase(found);
}

std::vector<std::shared_ptr<Operation>> SelfMailbox::Waiting() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Operation>> waiting;
  for (const auto& entry : queues_) {
    waiting.insert(waiting.end(), entry.second.receives.begin(), entry.second.receives.end());
  }
  return waiting;
}

Status SelfMailbox::Deliver(const CollectiveRequest& request, const Group& group,
                            const Message& message, std::vector<CollectiveResult>* results) {
  Fingerprint send;
  send.node_name = message.node_name;
  send.peer = group.rank;
  send.tensors.push_back({message.type, message.shape, ""});
  Fingerprint receive;
  receive.node_name = request.node_name;
  receive.peer = group.rank;
  receive.send_receive_tag = request.send_receive_tag;
  receive.tensors.push_back({request.tensors[0].type, request.tensors[0].shape, ""});
  Status status = ComparePointToPoint(group, send, receive);
  if (!status.ok()) return status;
  results->resize(1);
  CollectiveResult* result = &(*results)[0];
  result->count = request.tensors[0].count;
  const std::size_t bytes = message.bytes.size();
  status = Allocate(request, 0, bytes, result);
  if (status.ok() && bytes > 0) std::memcpy(result->data, message.bytes.data(), bytes);
  return status;
}

}  // namespace comm
}  // namespace npu_bridge
