#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomAllReduce")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " NPU_BRIDGE_REDUCE_TYPES)
    .Attr("reduction: {'min', 'max', 'prod', 'sum'}")
    .Attr("group: string")
    .Attr("fusion: int")
    .Attr("fusion_id: int")
    .SetIsStateful()
    .SetShapeFn(SameShapes)
    .Doc(R"doc(
Reduces a tensor over the ranks of a group; every rank gets the result.

Ranks are added up in rank order, so that every rank and every run gets the same bits. float16 and
bfloat16 are accumulated in float32 and rounded once; integer sums wrap; min and max propagate NaN.
The gradient of a sum is the allreduce sum of the output's gradient in the same group; min, max and
prod have one as well.

All ranks of the group must run the op with the same arguments; a difference is the same
InvalidArgumentError on every rank and names both sides. A rank that does not come is a
DeadlineExceededError after HCCL_EXEC_TIMEOUT, one that died an InternalError.

input: this rank's part, of any shape, a scalar included. The same shape on all ranks.
output: the reduction, of the input's shape.
reduction: how elements are combined.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
fusion: 0 leaves the op alone; 1 fuses sums by the group's gradient split strategy
  (hccl.split.api); 2 moves the op in one exchange with the sums of the same fusion_id.
fusion_id: with fusion 2, a number in [0, 2147483647]; with fusion 1 it must be -1; with fusion 0
  it is not used.
)doc");

}  // namespace npu_bridge
