// float16 and bfloat16 to float32 and back, without branches, so that loops of them vectorise.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_HALF_PRECISION_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_HALF_PRECISION_H_

#include <cstdint>
#include <cstring>

namespace npu_bridge {

#define NPU_ALWAYS_INLINE inline __attribute__((always_inline))

NPU_ALWAYS_INLINE float FloatFromBits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

NPU_ALWAYS_INLINE std::uint32_t BitsOfFloat(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Needs denormals (ScopedFloatEnvironment): the shifted bits of a float16 denormal are one.
NPU_ALWAYS_INLINE float WidenFloat16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  const float two_to_112 = FloatFromBits(0x77800000u);  // difference of the exponent biases
  const std::uint32_t scaled = BitsOfFloat(FloatFromBits(magnitude) * two_to_112);
  const std::uint32_t infinity_or_nan = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return FloatFromBits(scaled | infinity_or_nan | sign);
}

// To nearest even.
NPU_ALWAYS_INLINE std::uint16_t NarrowFloat16(float value) {
  const std::uint32_t bits = BitsOfFloat(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Adding 0.5 lines the last bit of a float16 denormal up with the last bit of the float32, so the
  // addition itself rounds.
  const std::uint32_t denormal =
      BitsOfFloat(FloatFromBits(magnitude) + FloatFromBits(0x3f000000u)) - 0x3f000000u;
  const std::uint32_t last_bit = (magnitude >> 13) & 1u;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + last_bit) >> 13;
  const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  std::uint32_t result = magnitude < 0x38800000u ? denormal : normal;
  result = magnitude >= 0x47800000u ? special : result;
  return static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000u));
}

NPU_ALWAYS_INLINE float WidenBfloat16(std::uint16_t value) {
  return FloatFromBits(static_cast<std::uint32_t>(value) << 16);
}

// To nearest even.
NPU_ALWAYS_INLINE std::uint16_t NarrowBfloat16(float value) {
  const std::uint32_t bits = BitsOfFloat(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_HALF_PRECISION_H_
