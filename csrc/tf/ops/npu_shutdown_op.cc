#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("NPUShutdown")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Leaves the job: the other ranks see a normal exit of this one.

Collectives in flight end with an error, groups are forgotten. Tensors that were received stay
valid. NPUInit, or the next collective, meets the other ranks anew.
)doc");

}  // namespace npu_bridge
