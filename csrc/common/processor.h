// The processors that this process may use, and how to wait on one for a moment.
#ifndef NPU_BRIDGE_CSRC_COMMON_PROCESSOR_H_
#define NPU_BRIDGE_CSRC_COMMON_PROCESSOR_H_

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace npu_bridge {

constexpr int kProcessorMaskWords = 16;  // 1024 processors, the size of glibc's cpu_set_t

// Bit i of the mask: processor i may run this process (sched_getaffinity). All zero when unknown.
void ProcessorMask(std::uint64_t mask[kProcessorMaskWords]);

// Tells the processor that this is a waiting loop.
inline void RelaxProcessor() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Rounding to nearest and denormals kept while it lives. TensorFlow runs kernels with denormals
// flushed to zero, our own threads do not: without this the bits of a sum would depend on the
// thread that computed it.
class ScopedFloatEnvironment {
 public:
#if defined(__x86_64__)
  ScopedFloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~ScopedFloatEnvironment() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  ScopedFloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(static_cast<std::uint64_t>(0)));
  }
  ~ScopedFloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#else
  ScopedFloatEnvironment() : saved_(0) {}
#endif
  ScopedFloatEnvironment(const ScopedFloatEnvironment&) = delete;
  ScopedFloatEnvironment& operator=(const ScopedFloatEnvironment&) = delete;

 private:
#if defined(__aarch64__)
  std::uint64_t saved_;
#else
  unsigned int saved_;
#endif
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_PROCESSOR_H_
