#include "csrc/tf/kernels/collective_requests.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "csrc/tf/compat.h"
#include "csrc/tf/data_types.h"
#include "tensorflow/core/framework/tensor.h"

namespace npu_bridge {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

std::vector<std::int64_t> Dimensions(const tensorflow::TensorShape& shape) {
  std::vector<std::int64_t> dimensions;
  for (int i = 0; i < shape.dims(); ++i) dimensions.push_back(shape.dim_size(i));
  return dimensions;
}

Status AddInput(const Tensor& tensor, int index, CollectiveRequest* request) {
  CollectiveTensor entry;
  entry.type = FromTfDataType(tensor.dtype());
  entry.shape = Dimensions(tensor.shape());
  entry.count = tensor.NumElements();
  if (entry.type == DataType::kInvalid) {
    return InvalidArgument("input " + std::to_string(index) + " is a tensor of type " +
                           tensorflow::DataTypeString(tensor.dtype()) +
                           ", which has no fixed size and cannot be moved. Pass numbers only.");
  }
  if (entry.count > 0) entry.input = tensor.tensor_data().data();
  request->tensors.push_back(entry);
  return Status();
}

// False when the product is beyond int64. Both are >= 0.
bool Multiply(std::int64_t a, std::int64_t b, std::int64_t* product) {
  if (a != 0 && b > std::numeric_limits<std::int64_t>::max() / a) return false;
  *product = a * b;
  return true;
}

// The values of an int64 input. Read through bytes: TensorFlow's int64 is another C++ type than
// std::int64_t in its older versions.
std::vector<std::int64_t> Values(const Tensor& tensor) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.NumElements()));
  if (!values.empty()) {
    std::memcpy(values.data(), tensor.tensor_data().data(), values.size() * sizeof(std::int64_t));
  }
  return values;
}

Status ReadVector(OpKernelContext* context, int index, const char* name,
                  std::vector<std::int64_t>* values) {
  const Tensor& tensor = context->input(index);
  if (tensor.dims() != 1) {
    return InvalidArgument(std::string(name) + " has the shape " + tensor.shape().DebugString() +
                           ", it must be a vector with one entry a rank of the group.");
  }
  *values = Values(tensor);
  return Status();
}

}  // namespace

Status BuildFromInputs(const CollectiveAttributes&, OpKernelContext* context,
                       CollectiveRequest* request) {
  request->tensors.reserve(static_cast<std::size_t>(context->num_inputs()));
  for (int i = 0; i < context->num_inputs(); ++i) {
    const Status status = AddInput(context->input(i), i, request);
    if (!status.ok()) return status;
  }
  return Status();
}

Status BuildAllGather(const CollectiveAttributes& attributes, OpKernelContext* context,
                      CollectiveRequest* request) {
  const Status status = BuildFromInputs(attributes, context, request);
  if (!status.ok()) return status;
  for (const CollectiveTensor& tensor : request->tensors) {
    // In the order in which TensorFlow multiplies, which aborts on a product that it cannot hold,
    // also where a later dimension is 0.
    std::int64_t total = std::max<std::int64_t>(attributes.rank_size, 0);
    for (std::int64_t size : tensor.shape) {
      if (!Multiply(total, size, &total)) {
        return InvalidArgument("the result would have more than 2^63 elements: rank_size " +
                               std::to_string(attributes.rank_size) + " times " +
                               DescribeTensor(tensor.type, tensor.shape) + ".");
      }
    }
  }
  return Status();
}

Status BuildReceive(const CollectiveAttributes& attributes, OpKernelContext* context,
                    CollectiveRequest* request) {
  CollectiveTensor entry;
  entry.type = FromTfDataType(context->expected_output_dtype(0));
  const std::string text = attributes.shape.DebugString();
  if (!attributes.shape.IsFullyDefined()) {
    request->tensors.push_back(entry);
    return InvalidArgument("the attribute shape is " + text +
                           ", it must be fully defined: the receiver makes room before it knows "
                           "what comes.");
  }
  entry.count = 1;
  for (int i = 0; i < attributes.shape.dims(); ++i) {
    const std::int64_t size = attributes.shape.dim_size(i);
    entry.shape.push_back(size);
    if (!Multiply(entry.count, size, &entry.count)) {
      return InvalidArgument("the attribute shape is " + text +
                             ", which has more than 2^63 elements.");
    }
  }
  request->tensors.push_back(entry);
  return Status();
}

Status BuildAllToAllV(const CollectiveAttributes&, OpKernelContext* context,
                      CollectiveRequest* request) {
  Status status = AddInput(context->input(0), 0, request);
  if (status.ok()) status = ReadVector(context, 1, "send_counts", &request->send_counts);
  if (status.ok()) {
    status = ReadVector(context, 2, "send_displacements", &request->send_displacements);
  }
  if (status.ok()) status = ReadVector(context, 3, "recv_counts", &request->receive_counts);
  if (status.ok()) {
    status = ReadVector(context, 4, "recv_displacements", &request->receive_displacements);
  }
  return status;
}

Status BuildAllToAllVC(const CollectiveAttributes&, OpKernelContext* context,
                       CollectiveRequest* request) {
  // The data of all members, then their matrices.
  const int members = context->num_inputs() / 2;
  Status first;
  for (int i = 0; i < members; ++i) {
    const Status status = AddInput(context->input(i), i, request);
    if (first.ok()) first = status;
    const Tensor& matrix = context->input(members + i);
    request->count_matrix_shapes.push_back(Dimensions(matrix.shape()));
    request->count_matrices.push_back(Values(matrix));
  }
  return first;
}

Status ResultShape(const CollectiveRequest& request, std::size_t tensor, std::int64_t count,
                   tensorflow::TensorShape* shape) {
  // A request that got a result has passed the world's checks and BuildAllGather's: there is a
  // dimension 0, rank_size is the group's, it divides, and no product overflows.
  std::vector<std::int64_t> dimensions = request.tensors[tensor].shape;
  switch (request.collective) {
    case Collective::kAllGather:
      dimensions[0] *= request.rank_size;
      break;
    case Collective::kReduceScatter:
      dimensions[0] /= request.rank_size;
      break;
    case Collective::kAllToAllV:
    case Collective::kAllToAllVC:
      dimensions.assign(1, count);
      break;
    default:
      break;
  }
  std::int64_t elements = 1;
  for (std::int64_t size : dimensions) elements *= size;
  if (elements != count) {
    return Internal("result " + std::to_string(tensor) + " came with " + std::to_string(count) +
                    " elements where " + DescribeTensor(request.tensors[tensor].type, dimensions) +
                    " has " + std::to_string(elements) + ". This is a defect of npu-bridge.");
  }
  shape->Clear();
  for (std::int64_t size : dimensions) shape->AddDim(size);
  return Status();
}

}  // namespace npu_bridge
