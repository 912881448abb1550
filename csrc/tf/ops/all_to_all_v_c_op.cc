#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomAllToAllVC")
    .Input("send_data: T")
    .Input("send_count_matrix: int64")
    .Output("recv_data: T")
    .Attr("T: " NPU_BRIDGE_DATA_TYPES)
    .Attr("rank: int")
    .Attr("group: string")
    .Attr("fusion: int")
    .Attr("fusion_id: int")
    .SetIsStateful()
    .SetShapeFn(AllToAllVCShape)
    .Doc(R"doc(
Sends each rank a block of a tensor, by a matrix of counts that all ranks share.

Blocks lie one behind the other in rank order, in send_data and in recv_data. A matrix that differs
between ranks, negative counts or a row that does not fit send_data is the same
InvalidArgumentError on every rank. The gradient is the op with the transposed matrix.

All ranks of the group must run the op with the same arguments; a difference is the same
InvalidArgumentError on every rank and names both sides. A rank that does not come is a
DeadlineExceededError after HCCL_EXEC_TIMEOUT, one that died an InternalError.

send_data: what to send, of any shape, read as if it were flat.
send_count_matrix: [N, N]; row i, column j: the elements that rank i sends to rank j. The same on
  all ranks.
recv_data: 1-D, of the length of the sum of column `rank`.
rank: this rank's number in the group.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
fusion: 0 leaves the op alone; 2 moves it in one exchange with the ops of its kind that have the
  same fusion_id.
fusion_id: with fusion 2, a number in [0, 2147483647]; with fusion 0 it is not used.
)doc");

}  // namespace npu_bridge
