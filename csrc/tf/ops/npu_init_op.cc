#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("NPUInit").SetIsStateful().SetShapeFn(tensorflow::shape_inference::NoOutputs).Doc(R"doc(
Meets the other ranks of the job, as the first collective would.

Waits until all ranks are there, at most HCCL_CONNECT_TIMEOUT (DeadlineExceededError, which names
those who are missing). Does nothing when the ranks have met already.
)doc");

}  // namespace npu_bridge
