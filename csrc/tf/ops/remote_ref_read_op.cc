#include "csrc/tf/ops/shape_functions.h"
#include "csrc/tf/ops/type_sets.h"
#include "tensorflow/core/framework/op.h"

namespace npu_bridge {

REGISTER_OP("HcomRemoteRefRead")
    .Input("remote: T")
    .Input("cache_var: Ref(dtype)")
    .Input("local_offset: T")
    .Output("cache_var1: Ref(dtype)")
    .Attr("T: {uint64}")
    .Attr("dtype: " NPU_BRIDGE_DATA_TYPES)
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(1));
      return TfOk();
    })
    .Doc(R"doc(
Reads blocks of other ranks' memory into a variable.

No transport of this project can serve it, since it reads and writes device memory at addresses
that a peer has registered: running it is an UnimplementedError. It is registered so that graphs
that hold it load. The op has no gradient.

remote: [k, 3]; a row is a rank, an address there and a number of bytes.
cache_var: the variable that is written.
local_offset: [k]; where each block goes in cache_var.
cache_var1: cache_var, after it was written.
dtype: the variable's type.
)doc");

}  // namespace npu_bridge
