#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomSend")
    .Input("input: T")
    .Attr("T: " NPU_BRIDGE_DATA_TYPES)
    .Attr("group: string")
    .Attr("sr_tag: int")
    .Attr("dest_rank: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Sends a tensor to one rank, whose HcomReceive gets it.

The op completes when its bytes are buffered, whatever their number: it does not wait for the
receiver. Sends and receives pair by group, source, destination and sr_tag, in order within one
tag. A receive of another type or shape is an InvalidArgumentError on both ranks. The op has no
gradient.

input: what to send, of any shape.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
sr_tag: a number that the receiver gives too.
dest_rank: the receiver's rank in the group.
)doc");

}  // namespace npu_bridge
