// Joining and leaving the job from inside a session.
#include <utility>

#include "csrc/comm/world.h"
#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/env.h"

namespace npu_bridge {
namespace {

// Both wait for other ranks or threads, and so must not hold a thread of TensorFlow's pool.
class SystemKernel : public tensorflow::AsyncOpKernel {
 public:
  SystemKernel(tensorflow::OpKernelConstruction* construction, Status (*action)())
      : AsyncOpKernel(construction), action_(action) {}

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override {
    const auto action = action_;
    // Env::SchedClosure runs each closure on a thread of its own.
    context->env()->SchedClosure([context, action, done] {
      const Status status = action();
      if (!status.ok()) context->SetStatus(ToTfStatus(status));
      done();
    });
  }

 private:
  Status (*const action_)();
};

class InitKernel : public SystemKernel {
 public:
  explicit InitKernel(tensorflow::OpKernelConstruction* construction)
      : SystemKernel(construction, [] { return ProcessWorld().Start(); }) {}
};

class ShutdownKernel : public SystemKernel {
 public:
  explicit ShutdownKernel(tensorflow::OpKernelConstruction* construction)
      : SystemKernel(construction, [] {
          ProcessWorld().Shutdown();
          return Status();
        }) {}
};

}  // namespace

REGISTER_KERNEL_BUILDER(Name("NPUInit").Device(tensorflow::DEVICE_CPU), InitKernel);
REGISTER_KERNEL_BUILDER(Name("NPUShutdown").Device(tensorflow::DEVICE_CPU), ShutdownKernel);

}  // namespace npu_bridge
