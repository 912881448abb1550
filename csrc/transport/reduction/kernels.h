// The inner loops of a reduction: a pointer for each type and operator.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_KERNELS_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_KERNELS_H_

#include <cstddef>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"

namespace npu_bridge {

// output[i] = left[i] o right[i]; output may be left.
using CombineKernel = void (*)(const void* left, const void* right, void* output,
                               std::size_t count);

// Types whose sums are kept in the type itself. nullptr for float16, bfloat16 and undefined pairs.
CombineKernel FindCombineKernel(DataType type, Reduction reduction);

// float16 and bfloat16: widened, accumulated in float32, narrowed once.
struct WideningKernels {
  void (*widen)(const void* input, float* accumulator, std::size_t count) = nullptr;
  void (*accumulate)(float* accumulator, const void* input, std::size_t count) = nullptr;
  void (*narrow)(const float* accumulator, void* output, std::size_t count) = nullptr;
};

// All nullptr for types that are not widened.
WideningKernels FindWideningKernels(DataType type, Reduction reduction);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_KERNELS_H_
