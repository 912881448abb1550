#include "csrc/comm/operation.h"

#include <cstring>

#include "csrc/comm/engine.h"

namespace npu_bridge {
namespace comm {
namespace {

void* Allocate(void* context, std::uint32_t tensor, std::uint64_t bytes) {
  const auto& request = static_cast<Operation*>(context)->request;
  return request->allocate ? request->allocate(tensor, bytes) : nullptr;
}

void Done(void* context, const npu_transport_status* status, const npu_transport_result* results) {
  auto* operation = static_cast<Operation*>(context);
  operation->engine->TransportDone(operation, *status, results);
}

}  // namespace

void PrepareTransportRequest(Operation* operation) {
  const CollectiveRequest& request = *operation->request;
  const Group& group = operation->group();
  const bool all_to_all =
      request.collective == Collective::kAllToAllV || request.collective == Collective::kAllToAllVC;
  const std::size_t count = request.tensors.size();
  operation->tensors.resize(count);
  if (all_to_all) operation->counts.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const CollectiveTensor& tensor = request.tensors[i];
    npu_transport_tensor* target = &operation->tensors[i];
    std::memset(target, 0, sizeof(*target));
    target->data_type = static_cast<std::int32_t>(tensor.type);
    target->element_size = static_cast<std::uint32_t>(DataTypeSize(tensor.type));
    target->result_count = static_cast<std::uint64_t>(ResultCount(request, group, i));
    if (request.collective != Collective::kReceive && tensor.count > 0) {
      target->input = tensor.input;
      target->input_count = static_cast<std::uint64_t>(tensor.count);
    }
    if (all_to_all) {
      operation->counts[i] = CountsOf(request, group, i);
      target->send_counts = operation->counts[i].send_counts.data();
      target->send_displacements = operation->counts[i].send_displacements.data();
      target->receive_counts = operation->counts[i].receive_counts.data();
      target->receive_displacements = operation->counts[i].receive_displacements.data();
    }
  }
  npu_transport_request* target = &operation->transport_request;
  std::memset(target, 0, sizeof(*target));
  target->struct_size = sizeof(*target);
  target->collective =
      static_cast<std::int32_t>(all_to_all ? Collective::kAllToAllV : request.collective);
  target->reduction = static_cast<std::int32_t>(request.reduction);
  target->root = request.root_rank;
  target->peer = request.peer_rank;
  target->match_id = operation->ref.match_id;
  target->match_slot = operation->ref.cell;
  target->tensor_count = static_cast<std::uint32_t>(count);
  target->tensors = operation->tensors.data();
  target->allocate = &Allocate;
  target->done = &Done;
  target->context = operation;
}

}  // namespace comm
}  // namespace npu_bridge
