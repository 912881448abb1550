#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomReceive")
    .Output("output: T")
    .Attr("T: " NPU_BRIDGE_DATA_TYPES)
    .Attr("shape: shape")
    .Attr("group: string")
    .Attr("sr_tag: int")
    .Attr("src_rank: int")
    .SetIsStateful()
    .SetShapeFn(ShapeFromAttribute)
    .Doc(R"doc(
Receives the tensor that another rank's HcomSend sends.

Waits until it is there, at most HCCL_EXEC_TIMEOUT (DeadlineExceededError), and fails with an
InternalError when the sender died. A send of another type or shape is an InvalidArgumentError on
both ranks. The op has no gradient.

output: what was sent.
T: the element type; the sender must send that type.
shape: the shape, fully defined; the sender must send that shape.
group: the group's name, hccl_world_group for all ranks. This rank must be a member.
sr_tag: a number that the sender gives too.
src_rank: the sender's rank in the group.
)doc");

}  // namespace npu_bridge
