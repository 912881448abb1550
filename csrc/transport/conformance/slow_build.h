// Whether this build is many times slower than the real one: then cases repeat less often and move
// less, but still enough to pass every limit that depends on size.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_SLOW_BUILD_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_SLOW_BUILD_H_

#include <cstdint>

namespace npu_bridge {
namespace conformance {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSlowBuild = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kIsSlowBuild = true;
#else
constexpr bool kIsSlowBuild = false;
#endif
#else
constexpr bool kIsSlowBuild = false;
#endif

// Elements of 4 bytes: never copied as a small result.
constexpr std::uint64_t kLarge = kIsSlowBuild ? 9001 : 50021;

constexpr std::uint64_t Repeats(std::uint64_t usual) {
  return kIsSlowBuild ? (usual + 9) / 10 : usual;
}

}  // namespace conformance
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_SLOW_BUILD_H_
