// What each collective op makes of its inputs, and of its result's shape.
#ifndef NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_REQUESTS_H_
#define NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_REQUESTS_H_

#include <cstddef>
#include <cstdint>

#include "csrc/common/collective_request.h"
#include "csrc/tf/kernels/collective_attributes.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace npu_bridge {

// Fills in the request's tensors, and counts where the op has them. An error is what the op is
// refused with on all ranks; it says what is wrong, the world adds which op, group and rank.
// Builders check only what the request cannot express: the world checks the rest, for all callers
// alike.
using RequestBuilder = Status (*)(const CollectiveAttributes& attributes,
                                  tensorflow::OpKernelContext* context, CollectiveRequest* request);

Status BuildFromInputs(const CollectiveAttributes& attributes, tensorflow::OpKernelContext* context,
                       CollectiveRequest* request);
Status BuildAllGather(const CollectiveAttributes& attributes, tensorflow::OpKernelContext* context,
                      CollectiveRequest* request);
Status BuildReceive(const CollectiveAttributes& attributes, tensorflow::OpKernelContext* context,
                    CollectiveRequest* request);
Status BuildAllToAllV(const CollectiveAttributes& attributes, tensorflow::OpKernelContext* context,
                      CollectiveRequest* request);
Status BuildAllToAllVC(const CollectiveAttributes& attributes, tensorflow::OpKernelContext* context,
                       CollectiveRequest* request);

// The shape of result `tensor`, which has `count` elements. An error when they disagree.
Status ResultShape(const CollectiveRequest& request, std::size_t tensor, std::int64_t count,
                   tensorflow::TensorShape* shape);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_REQUESTS_H_
