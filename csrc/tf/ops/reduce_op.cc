#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomReduce")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " NPU_BRIDGE_REDUCE_TYPES)
    .Attr("reduction: {'min', 'max', 'prod', 'sum'}")
    .Attr("group: string")
    .Attr("root_rank: int")
    .Attr("fusion: int")
    .Attr("fusion_id: int")
    .SetIsStateful()
    .SetShapeFn(SameShapes)
    .Doc(R"doc(
Reduces a tensor over the ranks of a group; one rank gets the result.

The other ranks get their own input back unchanged. Order and rounding are those of HcomAllReduce.
The gradient of a sum is the root's gradient broadcast to all, plus on the other ranks their own
output's gradient.

All ranks of the group must run the op with the same arguments; a difference is the same
InvalidArgumentError on every rank and names both sides. A rank that does not come is a
DeadlineExceededError after HCCL_EXEC_TIMEOUT, one that died an InternalError.

input: this rank's part, of any shape, a scalar included. The same shape on all ranks.
output: on the root the reduction, elsewhere the input.
reduction: how elements are combined.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
root_rank: the rank in the group that gets the result.
fusion: 0 leaves the op alone; 2 moves it in one exchange with the ops of its kind that have the
  same fusion_id.
fusion_id: with fusion 2, a number in [0, 2147483647]; with fusion 0 it is not used.
)doc");

}  // namespace npu_bridge
