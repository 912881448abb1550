#include "csrc/tf/kernels/pending_collective.h"

#include <string>
#include <utility>

#include "csrc/tf/kernels/collective_requests.h"
#include "csrc/tf/kernels/transport_tensor.h"

namespace npu_bridge {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

std::string Subject(const CollectiveRequest& request) {
  return std::string(CollectiveName(request.collective)) + " '" + request.node_name +
         "' in group " + request.group + ": ";
}

void ReleaseAll(const std::vector<CollectiveResult>& results) {
  for (const CollectiveResult& result : results) {
    if (result.release) result.release();
  }
}

}  // namespace

PendingCollective::PendingCollective(OpKernelContext* context,
                                     tensorflow::AsyncOpKernel::DoneCallback done,
                                     std::shared_ptr<CollectiveRequest> request)
    : context_(context), done_(std::move(done)), request_(std::move(request)) {
  allocated_.resize(request_->tensors.size());
}

void PendingCollective::Start(OpKernelContext* context,
                              tensorflow::AsyncOpKernel::DoneCallback done,
                              std::shared_ptr<CollectiveRequest> request) {
  auto pending = std::make_shared<PendingCollective>(context, std::move(done), request);
  // Not the shared pointer: the request would own what owns the request. The world calls this only
  // before the callback, which does own it.
  PendingCollective* const raw = pending.get();
  request->allocate = [raw](std::size_t tensor, std::uint64_t bytes) {
    return raw->Allocate(tensor, bytes);
  };

  tensorflow::CancellationManager* const manager = context->cancellation_manager();
  if (manager != nullptr) {
    pending->token_ = manager->get_cancellation_token();
    pending->registered_ =
        manager->RegisterCallback(pending->token_, [pending] { pending->Cancel(); });
    if (!pending->registered_ && request->refusal.ok()) {
      // Submitted all the same, so that the other ranks learn of it.
      request->refusal = Cancelled("the step was cancelled before the op began.");
    }
  }
  const RequestId id = ProcessWorld().Submit(
      std::move(request), [pending](const Status& status, std::vector<CollectiveResult> results) {
        pending->Finish(status, std::move(results));
      });
  pending->SetId(id);
}

void PendingCollective::SetId(RequestId id) {
  bool cancel = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    id_ = id;
    cancel = cancelled_;
  }
  if (cancel) Cancel();
}

void PendingCollective::Cancel() {
  RequestId id = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    id = id_;
  }
  // Without an id yet, SetId cancels. Outside the lock: the world may run Finish in this call.
  if (id == 0) return;
  ProcessWorld().Cancel(id,
                        "the step was cancelled: another op of it failed, or the session was "
                        "closed or ran into its own time limit.");
}

void* PendingCollective::Allocate(std::size_t tensor, std::uint64_t bytes) {
  if (tensor >= allocated_.size()) return nullptr;
  const tensorflow::DataType type = context_->expected_output_dtype(static_cast<int>(tensor));
  const std::uint64_t size = static_cast<std::uint64_t>(tensorflow::DataTypeSize(type));
  tensorflow::TensorShape shape;
  shape.AddDim(static_cast<TfInt64>(bytes / size));
  // The reason is the world's to tell: it knows which op could not get how much.
  if (!context_->allocate_temp(type, shape, &allocated_[tensor]).ok()) return nullptr;
  return const_cast<char*>(allocated_[tensor].tensor_data().data());
}

void PendingCollective::Finish(const Status& status, std::vector<CollectiveResult> results) {
  // Not DeregisterCallback, which waits for a running callback: Cancel may be what runs this.
  if (registered_) context_->cancellation_manager()->TryDeregisterCallback(token_);
  const TfStatus outcome = status.ok() ? SetOutputs(std::move(results)) : ToTfStatus(status);
  if (!outcome.ok()) context_->SetStatus(outcome);
  allocated_.clear();
  // The context may be gone as soon as done is called.
  const tensorflow::AsyncOpKernel::DoneCallback done = std::move(done_);
  done();
}

TfStatus PendingCollective::SetOutputs(std::vector<CollectiveResult> results) {
  const std::size_t outputs = static_cast<std::size_t>(context_->num_outputs());
  if (results.size() != outputs) {
    ReleaseAll(results);
    if (outputs == 0) return TfOk();  // a send
    return ToTfStatus(Internal(Subject(*request_) + std::to_string(results.size()) +
                               " results came for " + std::to_string(outputs) +
                               " outputs. This is a defect of npu-bridge."));
  }
  TfStatus first;
  for (std::size_t i = 0; i < outputs; ++i) {
    Tensor output;
    const TfStatus status = MakeOutput(i, std::move(results[i]), &output);
    if (status.ok()) {
      context_->set_output(static_cast<int>(i), output);
    } else if (first.ok()) {
      first = status;
    }
  }
  return first;
}

TfStatus PendingCollective::MakeOutput(std::size_t index, CollectiveResult result, Tensor* output) {
  const tensorflow::DataType type = context_->expected_output_dtype(static_cast<int>(index));
  tensorflow::TensorShape shape;
  const Status fits = ResultShape(*request_, index, result.count, &shape);
  if (!fits.ok()) {
    if (result.release) result.release();
    return ToTfStatus(Status(fits.code(), Subject(*request_) + fits.message()));
  }
  if (result.release) {
    return TensorOverResult(context_, type, shape, std::move(result), output);
  }
  if (result.count == 0) {
    *output = Tensor(type, shape);
    return TfOk();
  }
  if (output->CopyFrom(allocated_[index], shape)) return TfOk();
  return ToTfStatus(Internal(Subject(*request_) + "result " + std::to_string(index) +
                             " came in memory of another size. This is a defect of npu-bridge."));
}

}  // namespace npu_bridge
