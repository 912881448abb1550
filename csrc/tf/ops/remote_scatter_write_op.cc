#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomRemoteScatterWrite")
    .Input("remote: T")
    .Input("local: Ref(dtype)")
    .Input("local_offset: T")
    .Attr("T: {int64, uint64}")
    .Attr("dtype: " NPU_BRIDGE_DATA_TYPES)
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Writes blocks of a variable into other ranks' memory.

No transport of this project can serve it, since it reads and writes device memory at addresses
that a peer has registered: running it is an UnimplementedError. It is registered so that graphs
that hold it load. The op has no gradient.

remote: [k, 3]; a row is a rank, an address there and a number of bytes.
local: the variable that is read.
local_offset: [k]; where each block begins in local.
dtype: the variable's type.
)doc");

}  // namespace npu_bridge
