#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

// Internal: Python makes it from what a script trains with, and the iteration loop pass turns the
// graph that holds it into a loop.
REGISTER_OP("_NpuIterations")
    .Input("iterations: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Lets a step of a graph run all that it runs several times.

iterations: how many times; scalar, less than 1 counts as 1.
)doc");

}  // namespace npu_bridge
