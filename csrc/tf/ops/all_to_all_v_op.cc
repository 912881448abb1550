#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomAllToAllV")
    .Input("send_data: T")
    .Input("send_counts: int64")
    .Input("send_displacements: int64")
    .Input("recv_counts: int64")
    .Input("recv_displacements: int64")
    .Output("recv_data: T")
    .Attr("T: " NPU_BRIDGE_DATA_TYPES)
    .Attr("group: string")
    .SetIsStateful()
    .SetShapeFn(AllToAllVShape)
    .Doc(R"doc(
Sends each rank a block of a tensor and receives a block from each.

Counts and displacements are in elements, one entry a rank of the group. send_counts[i] on rank r
must equal recv_counts[r] on rank i; otherwise every rank gets the same InvalidArgumentError, which
names both ranks and both counts. So do negative counts, a block past the end of send_data and a
vector of the wrong length. Blocks of recv_data may overlap: they are written in rank order, so the
highest rank's elements stand; elements that no block covers are zero. The gradient is the op with
counts and displacements swapped; elements that a later block overwrote get zero, overlapping sends
accumulate.

All ranks of the group must run the op with the same arguments; a difference is the same
InvalidArgumentError on every rank and names both sides. A rank that does not come is a
DeadlineExceededError after HCCL_EXEC_TIMEOUT, one that died an InternalError.

send_data: what to send, of any shape, read as if it were flat.
send_counts: elements for each rank, [N].
send_displacements: where each rank's block begins in send_data, [N].
recv_counts: elements from each rank, [N].
recv_displacements: where each rank's block goes in recv_data, [N].
recv_data: 1-D, of the length max(recv_displacements + recv_counts).
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
)doc");

}  // namespace npu_bridge
