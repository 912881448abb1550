#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomGatherAllToAllV")
    .Input("addrinfo: uint64")
    .Input("addrinfo_count_per_rank: int64")
    .Input("recv_counts: int64")
    .Input("recv_displacements: int64")
    .Output("recv_data: dtype")
    .Output("gathered: dtype")
    .Attr("dtype: " NPU_BRIDGE_DATA_TYPES)
    .Attr("addr_length: int")
    .Attr("group: string")
    .SetIsStateful()
    .SetShapeFn(UnknownVectors)
    .Doc(R"doc(
Gathers blocks of memory by address and exchanges them as HcomAllToAllV does.

No transport of this project can serve it, since it reads and writes device memory at addresses
that a peer has registered: running it is an UnimplementedError. It is registered so that graphs
that hold it load. The op has no gradient.

addrinfo: [k, 2]; a row is an address and a number of bytes.
addrinfo_count_per_rank: how many rows of addrinfo go to each rank, [N].
recv_counts: elements from each rank, [N].
recv_displacements: where each rank's block goes in recv_data, [N].
recv_data: what was received, 1-D.
gathered: what was gathered here, 1-D.
dtype: the element type.
addr_length: bytes of a block where all have the same, else -1 or -2.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
)doc");

}  // namespace npu_bridge
