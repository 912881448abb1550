// -O2 of GCC 12 vectorises no loop of unknown length. Before every include, so that all inline
// functions of this file are compiled alike.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "csrc/transport/reduction/kernels.h"

#include <cstdint>
#include <type_traits>

#include "csrc/transport/reduction/half_precision.h"

// One binary for every x86-64: each loop is compiled twice and glibc's loader picks. The resolvers
// run before the sanitizers' runtime is up, and musl has none; aarch64 has its vectors always.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NPU_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer) || __has_feature(memory_sanitizer)
#define NPU_SANITIZED 1
#endif
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(NPU_SANITIZED) && \
    (!defined(__clang__) || __clang_major__ >= 14)
#define NPU_VECTOR_CLONES __attribute__((target_clones("default", "avx2")))
#else
#define NPU_VECTOR_CLONES
#endif

// Output may be an input, element for element: no dependence between iterations.
#if defined(__clang__)
#define NPU_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define NPU_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace npu_bridge {
namespace {

// Signed integers are summed and multiplied as unsigned ones: the same bits, and wrapping is
// defined. Narrow ones in 32 bits, since uint16_t would be promoted to int.
template <typename T, typename = void>
struct ArithmeticType {
  using type = T;
};
template <typename T>
struct ArithmeticType<T, std::enable_if_t<std::is_integral<T>::value>> {
  using type = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
};

struct Sum {
  template <typename T>
  static NPU_ALWAYS_INLINE T Apply(T a, T b) {
    using A = typename ArithmeticType<T>::type;
    return static_cast<T>(static_cast<A>(a) + static_cast<A>(b));
  }
};
struct Prod {
  template <typename T>
  static NPU_ALWAYS_INLINE T Apply(T a, T b) {
    using A = typename ArithmeticType<T>::type;
    return static_cast<T>(static_cast<A>(a) * static_cast<A>(b));
  }
};
// b != b: NaN takes over from the right; from the left it stays, since comparisons with it fail.
struct Max {
  template <typename T>
  static NPU_ALWAYS_INLINE T Apply(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};
struct Min {
  template <typename T>
  static NPU_ALWAYS_INLINE T Apply(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};

template <typename T, typename Operator>
NPU_ALWAYS_INLINE void CombineLoop(const void* left, const void* right, void* output,
                                   std::size_t count) {
  const T* a = static_cast<const T*>(left);
  const T* b = static_cast<const T*>(right);
  T* out = static_cast<T*>(output);
  NPU_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) out[i] = Operator::Apply(a[i], b[i]);
}

struct Float16 {
  static NPU_ALWAYS_INLINE float Widen(std::uint16_t value) { return WidenFloat16(value); }
  static NPU_ALWAYS_INLINE std::uint16_t Narrow(float value) { return NarrowFloat16(value); }
};
struct Bfloat16 {
  static NPU_ALWAYS_INLINE float Widen(std::uint16_t value) { return WidenBfloat16(value); }
  static NPU_ALWAYS_INLINE std::uint16_t Narrow(float value) { return NarrowBfloat16(value); }
};

template <typename Format>
NPU_ALWAYS_INLINE void WidenLoop(const void* input, float* accumulator, std::size_t count) {
  const std::uint16_t* in = static_cast<const std::uint16_t*>(input);
  NPU_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) accumulator[i] = Format::Widen(in[i]);
}
template <typename Format, typename Operator>
NPU_ALWAYS_INLINE void AccumulateLoop(float* accumulator, const void* input, std::size_t count) {
  const std::uint16_t* in = static_cast<const std::uint16_t*>(input);
  NPU_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    accumulator[i] = Operator::Apply(accumulator[i], Format::Widen(in[i]));
  }
}
template <typename Format>
NPU_ALWAYS_INLINE void NarrowLoop(const float* accumulator, void* output, std::size_t count) {
  std::uint16_t* out = static_cast<std::uint16_t*>(output);
  NPU_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) out[i] = Format::Narrow(accumulator[i]);
}

// target_clones wants plain functions, so the templates get one name each.
#define NPU_COMBINE(name, T, Operator)                                                     \
  NPU_VECTOR_CLONES void name##Operator(const void* left, const void* right, void* output, \
                                        std::size_t count) {                               \
    CombineLoop<T, Operator>(left, right, output, count);                                  \
  }
#define NPU_COMBINE_ALL(name, T) \
  NPU_COMBINE(name, T, Sum)      \
  NPU_COMBINE(name, T, Prod)     \
  NPU_COMBINE(name, T, Max)      \
  NPU_COMBINE(name, T, Min)

NPU_COMBINE_ALL(Int8, std::int8_t)
NPU_COMBINE_ALL(Int16, std::int16_t)
NPU_COMBINE_ALL(Int32, std::int32_t)
NPU_COMBINE_ALL(Int64, std::int64_t)
NPU_COMBINE_ALL(Uint8, std::uint8_t)
NPU_COMBINE_ALL(Uint16, std::uint16_t)
NPU_COMBINE_ALL(Uint32, std::uint32_t)
NPU_COMBINE_ALL(Uint64, std::uint64_t)
NPU_COMBINE_ALL(Float32, float)
NPU_COMBINE_ALL(Float64, double)

#define NPU_ACCUMULATE(Format, Operator)                                                     \
  NPU_VECTOR_CLONES void Accumulate##Format##Operator(float* accumulator, const void* input, \
                                                      std::size_t count) {                   \
    AccumulateLoop<Format, Operator>(accumulator, input, count);                             \
  }
#define NPU_WIDENING(Format)                                                                       \
  NPU_VECTOR_CLONES void Widen##Format(const void* input, float* accumulator, std::size_t count) { \
    WidenLoop<Format>(input, accumulator, count);                                                  \
  }                                                                                                \
  NPU_VECTOR_CLONES void Narrow##Format(const float* accumulator, void* output,                    \
                                        std::size_t count) {                                       \
    NarrowLoop<Format>(accumulator, output, count);                                                \
  }                                                                                                \
  NPU_ACCUMULATE(Format, Sum)                                                                      \
  NPU_ACCUMULATE(Format, Prod)                                                                     \
  NPU_ACCUMULATE(Format, Max)                                                                      \
  NPU_ACCUMULATE(Format, Min)

NPU_WIDENING(Float16)
NPU_WIDENING(Bfloat16)

// Picks by reduction. Order of the arguments: that of Reduction's values.
template <typename Kernel>
Kernel Pick(Reduction reduction, Kernel sum, Kernel prod, Kernel max, Kernel min) {
  switch (reduction) {
    case Reduction::kSum:
      return sum;
    case Reduction::kProd:
      return prod;
    case Reduction::kMax:
      return max;
    case Reduction::kMin:
      return min;
    case Reduction::kNone:
      break;
  }
  return nullptr;
}

}  // namespace

CombineKernel FindCombineKernel(DataType type, Reduction reduction) {
#define NPU_CASE(name)    \
  case DataType::k##name: \
    return Pick<CombineKernel>(reduction, name##Sum, name##Prod, name##Max, name##Min);
  switch (type) {
    NPU_CASE(Int8)
    NPU_CASE(Int16)
    NPU_CASE(Int32)
    NPU_CASE(Int64)
    NPU_CASE(Uint8)
    NPU_CASE(Uint16)
    NPU_CASE(Uint32)
    NPU_CASE(Uint64)
    NPU_CASE(Float32)
    NPU_CASE(Float64)
    default:
      return nullptr;
  }
#undef NPU_CASE
}

WideningKernels FindWideningKernels(DataType type, Reduction reduction) {
  WideningKernels kernels;
#define NPU_CASE(name)                                                                   \
  case DataType::k##name:                                                                \
    kernels.widen = Widen##name;                                                         \
    kernels.accumulate = Pick<decltype(kernels.accumulate)>(                             \
        reduction, Accumulate##name##Sum, Accumulate##name##Prod, Accumulate##name##Max, \
        Accumulate##name##Min);                                                          \
    kernels.narrow = Narrow##name;                                                       \
    break;
  switch (type) {
    NPU_CASE(Float16)
    NPU_CASE(Bfloat16)
    default:
      break;
  }
#undef NPU_CASE
  if (kernels.accumulate == nullptr) return WideningKernels();
  return kernels;
}

}  // namespace npu_bridge
