// The internal ops that the fusion pass makes of several ops of one kind. Kept apart from the
// published ops by their "_". Broadcasts need none: HcomBroadcast takes a list.
#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

// Everything that the ops share. Attributes are those of the members, which have them in common.
#define NPU_BRIDGE_REGISTER_FUSED(name, types) \
  REGISTER_OP(name)                            \
      .Attr("N: int >= 1")                     \
      .Attr("T: " types)                       \
      .Attr("group: string")                   \
      .Attr("fusion: int")                     \
      .Attr("fusion_id: int")                  \
      .SetIsStateful()

NPU_BRIDGE_REGISTER_FUSED("_HcomFusedAllReduce", NPU_BRIDGE_REDUCE_TYPES)
    .Input("input: N * T")
    .Output("output: N * T")
    .Attr("reduction: {'min', 'max', 'prod', 'sum'}")
    .SetShapeFn(SameShapes)
    .Doc("Several HcomAllReduce in one exchange.");

NPU_BRIDGE_REGISTER_FUSED("_HcomFusedReduce", NPU_BRIDGE_REDUCE_TYPES)
    .Input("input: N * T")
    .Output("output: N * T")
    .Attr("reduction: {'min', 'max', 'prod', 'sum'}")
    .Attr("root_rank: int")
    .SetShapeFn(SameShapes)
    .Doc("Several HcomReduce in one exchange.");

NPU_BRIDGE_REGISTER_FUSED("_HcomFusedReduceScatter", NPU_BRIDGE_REDUCE_TYPES)
    .Input("input: N * T")
    .Output("output: N * T")
    .Attr("reduction: {'min', 'max', 'prod', 'sum'}")
    .Attr("rank_size: int")
    .SetShapeFn(ReduceScatterShape)
    .Doc("Several HcomReduceScatter in one exchange.");

NPU_BRIDGE_REGISTER_FUSED("_HcomFusedAllGather", NPU_BRIDGE_DATA_TYPES)
    .Input("input: N * T")
    .Output("output: N * T")
    .Attr("rank_size: int")
    .SetShapeFn(AllGatherShape)
    .Doc("Several HcomAllGather in one exchange.");

NPU_BRIDGE_REGISTER_FUSED("_HcomFusedAllToAllVC", NPU_BRIDGE_DATA_TYPES)
    .Input("send_data: N * T")
    .Input("send_count_matrix: N * int64")
    .Output("recv_data: N * T")
    .Attr("rank: int")
    .SetShapeFn(UnknownVectors)
    .Doc("Several HcomAllToAllVC in one exchange.");

#undef NPU_BRIDGE_REGISTER_FUSED

}  // namespace npu_bridge
