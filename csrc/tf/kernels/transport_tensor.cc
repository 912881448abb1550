#include "csrc/tf/kernels/transport_tensor.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/allocator.h"

namespace npu_bridge {
namespace {

class TransportBuffer : public tensorflow::TensorBuffer {
 public:
  TransportBuffer(void* data, std::size_t bytes, std::function<void()> release)
      : TensorBuffer(data), bytes_(bytes), release_(std::move(release)) {}
  ~TransportBuffer() override { release_(); }

  std::size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<TfInt64>(bytes_));
    proto->set_allocator_name("npu_bridge_transport");
  }
  // TensorFlow writes in place only into memory that a tensor owns. This memory is read by other
  // ranks' tensors, or at least accounted by the transport.
  bool OwnsMemory() const override { return false; }

 private:
  const std::size_t bytes_;
  const std::function<void()> release_;
};

bool IsAligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % tensorflow::Allocator::kAllocatorAlignment == 0;
}

}  // namespace

TfStatus TensorOverResult(tensorflow::OpKernelContext* context, tensorflow::DataType type,
                          const tensorflow::TensorShape& shape, CollectiveResult result,
                          tensorflow::Tensor* tensor) {
  const std::size_t bytes = static_cast<std::size_t>(result.count) * tensorflow::DataTypeSize(type);
  if (bytes > 0 && IsAligned(result.data)) {
    auto* buffer = new TransportBuffer(result.data, bytes, std::move(result.release));
    *tensor = tensorflow::Tensor(type, shape, buffer);
    buffer->Unref();  // the tensor holds its own reference
    return TfOk();
  }
  const TfStatus status = context->allocate_temp(type, shape, tensor);
  if (status.ok() && bytes > 0) {
    std::memcpy(const_cast<char*>(tensor->tensor_data().data()), result.data, bytes);
  }
  result.release();
  return status;
}

}  // namespace npu_bridge
