// The kernel of every collective op: makes a request of the op's attributes and inputs, hands it to
// the world, and makes tensors of the results. It holds no thread while the op waits.
#ifndef NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_KERNEL_H_
#define NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_KERNEL_H_

#include <memory>
#include <string>
#include <vector>

#include "csrc/common/collective_request.h"
#include "csrc/common/step_counter.h"
#include "csrc/tf/kernels/collective_attributes.h"
#include "csrc/tf/kernels/collective_requests.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace npu_bridge {

class CollectiveKernel : public tensorflow::AsyncOpKernel {
 public:
  CollectiveKernel(tensorflow::OpKernelConstruction* construction, Collective collective,
                   RequestBuilder builder);

  void ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) override;

 private:
  void FillKey(tensorflow::OpKernelContext* context, CollectiveRequest* request) const;

  const Collective collective_;
  const RequestBuilder builder_;
  CollectiveAttributes attributes_;
  Status attribute_error_;
  std::string tag_;
  std::vector<FusedMember> members_;
  std::string name_;  // for people
  bool is_eager_ = false;
  StepCounter* counter_ = nullptr;  // of the process, never null
};

// The kernel class of one op, for REGISTER_KERNEL_BUILDER.
template <Collective collective, RequestBuilder builder>
class CollectiveKernelOf : public CollectiveKernel {
 public:
  explicit CollectiveKernelOf(tensorflow::OpKernelConstruction* construction)
      : CollectiveKernel(construction, collective, builder) {}
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_KERNEL_H_
