// Stands in the graph of a step of several iterations. The loop around it is made of TensorFlow's
// own ops, so that there is nothing left to do.
#include "csrc/tf/attributes.h"
#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace npu_bridge {
namespace {

class IterationsKernel : public tensorflow::OpKernel {
 public:
  explicit IterationsKernel(tensorflow::OpKernelConstruction* construction)
      : OpKernel(construction) {
    if (!tensorflow::GetNodeAttr(construction->def(), kIsLoopAttribute, &is_loop_).ok()) {
      is_loop_ = false;
    }
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& iterations = context->input(0);
    OP_REQUIRES(context, iterations.NumElements() == 1,
                MakeTfStatus(StatusCode::kInvalidArgument,
                             "iterations per loop must be a scalar, got shape " +
                                 iterations.shape().DebugString()));
    const int wanted = iterations.flat<tensorflow::int32>()(0);
    // Running once what should run ten times would train differently without a word.
    OP_REQUIRES(context, is_loop_ || wanted <= 1,
                MakeTfStatus(StatusCode::kFailedPrecondition,
                             "'" + std::string(name()) + "': " + std::to_string(wanted) +
                                 " iterations per loop were asked for, but this graph runs without "
                                 "the rewrite that makes the loop. Fetch the op that "
                                 "set_iteration_per_loop returns directly in Session.run."));
  }

 private:
  bool is_loop_ = false;
};

}  // namespace

REGISTER_KERNEL_BUILDER(Name("_NpuIterations").Device(tensorflow::DEVICE_CPU), IterationsKernel);

}  // namespace npu_bridge
