#include "csrc/transport/reduction/reduction.h"

#include <algorithm>
#include <cstring>

#include "csrc/common/memory_copy.h"
#include "csrc/common/processor.h"
#include "csrc/transport/reduction/kernels.h"

namespace npu_bridge {
namespace {

// The accumulator of a block, an input and the output fit the smallest first-level cache.
constexpr std::size_t kBlockBytes = 8192;
constexpr std::size_t kWideBlock = kBlockBytes / sizeof(float);

const char* At(const void* buffer, std::uint64_t offset) {
  return static_cast<const char*>(buffer) + offset;
}

void ReduceInPlace(CombineKernel combine, std::size_t element, const void* const* inputs,
                   std::int32_t input_count, std::uint64_t count, char* output, bool streaming) {
  alignas(64) char accumulator[kBlockBytes];
  const std::uint64_t block = kBlockBytes / element;
  for (std::uint64_t begin = 0; begin < count; begin += block) {
    const std::size_t length = static_cast<std::size_t>(std::min(block, count - begin));
    const std::uint64_t offset = begin * element;
    char* target = streaming ? accumulator : output + offset;
    combine(At(inputs[0], offset), At(inputs[1], offset), target, length);
    for (std::int32_t i = 2; i < input_count; ++i) {
      combine(target, At(inputs[i], offset), target, length);
    }
    if (streaming) StreamingCopy(output + offset, accumulator, length * element);
  }
}

void ReduceWidened(const WideningKernels& kernels, const void* const* inputs,
                   std::int32_t input_count, std::uint64_t count, char* output, bool streaming) {
  alignas(64) float accumulator[kWideBlock];
  alignas(64) std::uint16_t narrowed[kWideBlock];
  for (std::uint64_t begin = 0; begin < count; begin += kWideBlock) {
    const std::size_t length =
        static_cast<std::size_t>(std::min<std::uint64_t>(kWideBlock, count - begin));
    const std::uint64_t offset = begin * sizeof(std::uint16_t);
    kernels.widen(At(inputs[0], offset), accumulator, length);
    for (std::int32_t i = 1; i < input_count; ++i) {
      kernels.accumulate(accumulator, At(inputs[i], offset), length);
    }
    if (streaming) {
      kernels.narrow(accumulator, narrowed, length);
      StreamingCopy(output + offset, narrowed, length * sizeof(std::uint16_t));
    } else {
      kernels.narrow(accumulator, output + offset, length);
    }
  }
}

}  // namespace

bool Reduce(DataType type, Reduction reduction, const void* const* inputs, std::int32_t input_count,
            std::uint64_t count, void* output, bool streaming) {
  if (input_count < 1) return false;
  const CombineKernel combine = FindCombineKernel(type, reduction);
  const WideningKernels widening = FindWideningKernels(type, reduction);
  if (combine == nullptr && widening.accumulate == nullptr) return false;
  if (count == 0) return true;
  if (input_count == 1) {
    std::memcpy(output, inputs[0], count * DataTypeSize(type));
    return true;
  }
  ScopedFloatEnvironment environment;
  char* out = static_cast<char*>(output);
  if (combine != nullptr) {
    ReduceInPlace(combine, DataTypeSize(type), inputs, input_count, count, out, streaming);
  } else {
    ReduceWidened(widening, inputs, input_count, count, out, streaming);
  }
  return true;
}

}  // namespace npu_bridge
