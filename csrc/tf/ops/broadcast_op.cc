#include "csrc/tf/ops/shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomBroadcast")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: list(type) >= 0")
    .Attr("fusion: int")
    .Attr("fusion_id: int")
    .Attr("group: string")
    .Attr("root_rank: int")
    .SetIsStateful()
    .SetShapeFn(SameShapes)
    .Doc(R"doc(
Gives every rank the tensors of one rank.

Tensors of any numeric type may be mixed, scalars and empty tensors included; all move in one
exchange. Types without a fixed size (string, resource, variant) are refused by name. The gradient
is the reduce sum of the output's gradient to the root, and zeros on the other ranks.

All ranks of the group must run the op with the same arguments; a difference is the same
InvalidArgumentError on every rank and names both sides. A rank that does not come is a
DeadlineExceededError after HCCL_EXEC_TIMEOUT, one that died an InternalError.

input: a list of tensors. Types and shapes must be the same on all ranks; values count on the root
  only.
output: the root's tensors.
fusion: 0 leaves the op alone; 2 moves it in one exchange with the ops of its kind that have the
  same fusion_id.
fusion_id: with fusion 2, a number in [0, 2147483647]; with fusion 0 it is not used.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
root_rank: the rank in the group whose tensors all get.
)doc");

}  // namespace npu_bridge
