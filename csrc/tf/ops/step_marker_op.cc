#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

// Internal: only the step marker pass makes it. Kept apart from the published ops by its "_".
REGISTER_OP("_HcomStepMarker")
    .Attr("tags: list(string)")
    .Attr("groups: list(string)")
    .Attr("called_tags: list(string)")
    .Attr("called_groups: list(string)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Counts a step for the collectives of a graph, also when a branch skips them.

tags: what pairs each collective of the graph with its peers'.
groups: each one's group.
called_tags: the same for collectives in functions that the graph calls.
called_groups: each one's group.
)doc");

}  // namespace npu_bridge
