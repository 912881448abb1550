#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomReduceScatter")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " NPU_BRIDGE_REDUCE_TYPES)
    .Attr("reduction: {'min', 'max', 'prod', 'sum'}")
    .Attr("group: string")
    .Attr("fusion: int")
    .Attr("fusion_id: int")
    .Attr("rank_size: int")
    .SetIsStateful()
    .SetShapeFn(ReduceScatterShape)
    .Doc(R"doc(
Reduces a tensor over the ranks of a group and gives each rank its part of the result.

The result is cut along dimension 0; rank r gets part r. Order and rounding are those of
HcomAllReduce. The gradient of a sum is the allgather of the output's gradient in the same group.

All ranks of the group must run the op with the same arguments; a difference is the same
InvalidArgumentError on every rank and names both sides. A rank that does not come is a
DeadlineExceededError after HCCL_EXEC_TIMEOUT, one that died an InternalError.

input: this rank's part, with at least one dimension; rank_size divides dimension 0. The same shape
  on all ranks.
output: this rank's part of the reduction: dimension 0 is the input's divided by rank_size.
reduction: how elements are combined.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
fusion: 0 leaves the op alone; 2 moves it in one exchange with the ops of its kind that have the
  same fusion_id.
fusion_id: with fusion 2, a number in [0, 2147483647]; with fusion 0 it is not used.
rank_size: the number of ranks in the group, 1 to 32768.
)doc");

}  // namespace npu_bridge
