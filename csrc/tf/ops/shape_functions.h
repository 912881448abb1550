// Shape functions of the collective ops. They give what is known and fail with InvalidArgument on
// what no run could accept; they leave to the kernel what depends on values (counts), because the
// kernel tells the other ranks and an error while the graph is built does not.
#ifndef NPU_BRIDGE_CSRC_TF_OPS_SHAPE_FUNCTIONS_H_
#define NPU_BRIDGE_CSRC_TF_OPS_SHAPE_FUNCTIONS_H_

#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace npu_bridge {

// The published limit of the attribute rank_size.
constexpr TfInt64 kMaxRankSize = 32768;

// Output i has the shape of input i.
TfStatus SameShapes(tensorflow::shape_inference::InferenceContext* c);

// Dimension 0 of each input times, or divided by, the attribute rank_size.
TfStatus AllGatherShape(tensorflow::shape_inference::InferenceContext* c);
TfStatus ReduceScatterShape(tensorflow::shape_inference::InferenceContext* c);

// 1-D; the length is known where the counts are constant.
TfStatus AllToAllVShape(tensorflow::shape_inference::InferenceContext* c);
TfStatus AllToAllVCShape(tensorflow::shape_inference::InferenceContext* c);

// The attribute `shape`.
TfStatus ShapeFromAttribute(tensorflow::shape_inference::InferenceContext* c);

// Every output is 1-D of unknown length.
TfStatus UnknownVectors(tensorflow::shape_inference::InferenceContext* c);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_OPS_SHAPE_FUNCTIONS_H_
