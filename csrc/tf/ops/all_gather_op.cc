#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomAllGather")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " NPU_BRIDGE_DATA_TYPES)
    .Attr("group: string")
    .Attr("fusion: int")
    .Attr("fusion_id: int")
    .Attr("rank_size: int")
    .SetIsStateful()
    .SetShapeFn(AllGatherShape)
    .Doc(R"doc(
Puts the ranks' tensors one after the other along dimension 0; every rank gets the whole.

The gradient is the reduce_scatter sum of the output's gradient in the same group.

All ranks of the group must run the op with the same arguments; a difference is the same
InvalidArgumentError on every rank and names both sides. A rank that does not come is a
DeadlineExceededError after HCCL_EXEC_TIMEOUT, one that died an InternalError.

input: this rank's part, with at least one dimension. The same shape on all ranks.
output: the parts in rank order: dimension 0 is rank_size times the input's.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
fusion: 0 leaves the op alone; 2 moves it in one exchange with the ops of its kind that have the
  same fusion_id.
fusion_id: with fusion 2, a number in [0, 2147483647]; with fusion 0 it is not used.
rank_size: the number of ranks in the group, 1 to 32768.
)doc");

}  // namespace npu_bridge
