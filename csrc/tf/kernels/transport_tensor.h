// A tensor over memory that a transport hands out.
#ifndef NPU_BRIDGE_CSRC_TF_KERNELS_TRANSPORT_TENSOR_H_
#define NPU_BRIDGE_CSRC_TF_KERNELS_TRANSPORT_TENSOR_H_

#include "csrc/common/collective_request.h"
#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace npu_bridge {

// Makes `tensor` of the given type and shape over `result`, whose `release` it then owns: it is
// called when the last tensor that shares the memory is gone, or here when the memory does not fit
// TensorFlow's rules (alignment) and was copied. `result.count` must be the shape's.
TfStatus TensorOverResult(tensorflow::OpKernelContext* context, tensorflow::DataType type,
                          const tensorflow::TensorShape& shape, CollectiveResult result,
                          tensorflow::Tensor* tensor);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_KERNELS_TRANSPORT_TENSOR_H_
