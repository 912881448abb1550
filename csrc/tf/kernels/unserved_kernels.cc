// Ops that read and write a peer's device memory by address. No transport here can serve them; they
// are registered so that graphs that hold them load, and so that running one says what to do.
#include <string>

#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace npu_bridge {
namespace {

class UnservedKernel : public tensorflow::OpKernel {
 public:
  explicit UnservedKernel(tensorflow::OpKernelConstruction* construction)
      : OpKernel(construction) {}

  void Compute(tensorflow::OpKernelContext* context) override {
    context->SetStatus(ToTfStatus(Unimplemented(
        type_string() + " '" + name() +
        "': no transport here serves this op, which reads and writes the memory of another rank's "
        "device by address. Exchange the rows with HcomAllToAllV "
        "(npu_bridge.hccl.hccl_ops.all_to_all_v) instead, or run this graph on Ascend devices.")));
  }
};

}  // namespace

#define NPU_BRIDGE_REGISTER_UNSERVED(op) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), UnservedKernel)

NPU_BRIDGE_REGISTER_UNSERVED("HcomGatherAllToAllV");
NPU_BRIDGE_REGISTER_UNSERVED("HcomRemoteRead");
NPU_BRIDGE_REGISTER_UNSERVED("HcomRemoteRefRead");
NPU_BRIDGE_REGISTER_UNSERVED("HcomRemoteWrite");
NPU_BRIDGE_REGISTER_UNSERVED("HcomRemoteScatterWrite");

#undef NPU_BRIDGE_REGISTER_UNSERVED

}  // namespace npu_bridge
