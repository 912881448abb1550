// A collective op between the start of its kernel and its done().
#ifndef NPU_BRIDGE_CSRC_TF_KERNELS_PENDING_COLLECTIVE_H_
#define NPU_BRIDGE_CSRC_TF_KERNELS_PENDING_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "csrc/comm/world.h"
#include "csrc/common/collective_request.h"
#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace npu_bridge {

// Owned by the callbacks that it registers: with the world, which ends it, and with the step's
// cancellation manager. The kernel's context, and with it the inputs, is gone once done() ran; only
// Finish, which runs once, touches it.
class PendingCollective {
 public:
  // Submits the request, which may end before this returns.
  static void Start(tensorflow::OpKernelContext* context,
                    tensorflow::AsyncOpKernel::DoneCallback done,
                    std::shared_ptr<CollectiveRequest> request);

  PendingCollective(tensorflow::OpKernelContext* context,
                    tensorflow::AsyncOpKernel::DoneCallback done,
                    std::shared_ptr<CollectiveRequest> request);

 private:
  void Cancel();
  void SetId(RequestId id);
  void* Allocate(std::size_t tensor, std::uint64_t bytes);
  void Finish(const Status& status, std::vector<CollectiveResult> results);
  TfStatus SetOutputs(std::vector<CollectiveResult> results);
  TfStatus MakeOutput(std::size_t index, CollectiveResult result, tensorflow::Tensor* output);

  tensorflow::OpKernelContext* const context_;
  tensorflow::AsyncOpKernel::DoneCallback done_;
  const std::shared_ptr<CollectiveRequest> request_;
  // Memory that the transport asked for, one a tensor; empty where it did not.
  std::vector<tensorflow::Tensor> allocated_;

  tensorflow::CancellationToken token_ = 0;
  bool registered_ = false;  // written before the request is submitted

  // Guards the two below: a step may be cancelled before Submit has told the request's id.
  std::mutex mutex_;
  RequestId id_ = 0;
  bool cancelled_ = false;
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_KERNELS_PENDING_COLLECTIVE_H_
