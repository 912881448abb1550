#include "csrc/transport/loopback/execute.h"

#include <cstring>
#include <string>

#include "csrc/transport/reduction/reduction.h"

namespace npu_bridge {
namespace loopback {
namespace {

using Requests = std::vector<npu_transport_request>;
using Results = std::vector<std::vector<npu_transport_result>>;

const char* Input(const npu_transport_request& request, std::uint32_t tensor,
                  std::uint64_t element) {
  const npu_transport_tensor& t = request.tensors[tensor];
  return static_cast<const char*>(t.input) + element * t.element_size;
}

void Copy(void* to, const void* from, std::uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Elements [begin, begin + count) of all inputs, reduced into `output`.
Status ReduceRange(const Requests& requests, std::uint32_t tensor, std::uint64_t begin,
                   std::uint64_t count, void* output) {
  if (count == 0) return Status::Ok();
  std::vector<const void*> inputs;
  for (const npu_transport_request& request : requests) {
    inputs.push_back(Input(request, tensor, begin));
  }
  const npu_transport_request& first = requests[0];
  const DataType type = static_cast<DataType>(first.tensors[tensor].data_type);
  if (!Reduce(type, static_cast<Reduction>(first.reduction), inputs.data(),
              static_cast<std::int32_t>(inputs.size()), count, output, /*streaming=*/false)) {
    return Unimplemented(std::string("loopback cannot reduce ") + DataTypeName(type));
  }
  return Status::Ok();
}

void AllToAll(const Requests& requests, std::uint32_t tensor, std::size_t receiver, char* output) {
  const npu_transport_tensor& to = requests[receiver].tensors[tensor];
  if (to.result_count == 0) return;
  std::memset(output, 0, to.result_count * to.element_size);
  for (std::size_t sender = 0; sender < requests.size(); ++sender) {
    const npu_transport_tensor& from = requests[sender].tensors[tensor];
    const std::uint64_t count = static_cast<std::uint64_t>(to.receive_counts[sender]);
    if (count == 0) continue;
    const auto target = static_cast<std::uint64_t>(to.receive_displacements[sender]);
    const auto source = static_cast<std::uint64_t>(from.send_displacements[receiver]);
    Copy(output + target * to.element_size, Input(requests[sender], tensor, source),
         count * to.element_size);
  }
}

Status ExecuteTensor(const Requests& requests, const Results& results, std::uint32_t tensor) {
  const npu_transport_request& first = requests[0];
  const std::uint64_t element = first.tensors[tensor].element_size;
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    char* output = static_cast<char*>(results[rank][tensor].data);
    const npu_transport_tensor& own = requests[rank].tensors[tensor];
    Status status;
    switch (first.collective) {
      case NPU_COLLECTIVE_ALL_REDUCE:
        status = ReduceRange(requests, tensor, 0, own.result_count, output);
        break;
      case NPU_COLLECTIVE_REDUCE:
        if (rank == static_cast<std::size_t>(first.root)) {
          status = ReduceRange(requests, tensor, 0, own.result_count, output);
        } else {
          Copy(output, own.input, own.input_count * element);
        }
        break;
      case NPU_COLLECTIVE_REDUCE_SCATTER:
        status = ReduceRange(requests, tensor, rank * own.result_count, own.result_count, output);
        break;
      case NPU_COLLECTIVE_ALL_GATHER:
        for (std::size_t from = 0; from < requests.size(); ++from) {
          Copy(output + from * own.input_count * element, requests[from].tensors[tensor].input,
               own.input_count * element);
        }
        break;
      case NPU_COLLECTIVE_BROADCAST:
        Copy(output, requests[static_cast<std::size_t>(first.root)].tensors[tensor].input,
             own.result_count * element);
        break;
      case NPU_COLLECTIVE_ALL_TO_ALL_V:
        AllToAll(requests, tensor, rank, output);
        break;
      default:
        status =
            Unimplemented("loopback does not know collective " + std::to_string(first.collective));
    }
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

}  // namespace

Status AllocateResults(const npu_transport_request& request,
                       std::vector<npu_transport_result>* results) {
  results->assign(request.tensor_count, npu_transport_result());
  for (std::uint32_t t = 0; t < request.tensor_count; ++t) {
    const std::uint64_t bytes = request.tensors[t].result_count * request.tensors[t].element_size;
    if (bytes == 0) continue;
    (*results)[t].data = request.allocate(request.context, t, bytes);
    if ((*results)[t].data == nullptr) {
      return ResourceExhausted("no memory for a result of " + std::to_string(bytes) + " bytes");
    }
  }
  return Status::Ok();
}

Status Execute(const Requests& requests, const Results& results) {
  for (std::uint32_t tensor = 0; tensor < requests[0].tensor_count; ++tensor) {
    const Status status = ExecuteTensor(requests, results, tensor);
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

}  // namespace loopback
}  // namespace npu_bridge
