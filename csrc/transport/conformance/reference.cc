#include "csrc/transport/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace npu_bridge {
namespace conformance {
namespace {

struct HalfFormat {
  int exponent_bits;
  int mantissa_bits;
};

HalfFormat FormatOf(DataType type) {
  return type == DataType::kFloat16 ? HalfFormat{5, 10} : HalfFormat{8, 7};
}

double HalfValue(HalfFormat format, std::uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int top = (1 << format.exponent_bits) - 1;
  const int exponent = (bits >> format.mantissa_bits) & top;
  const int bias = top / 2;
  double value = 0;
  if (exponent == top) {
    value = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    value =
        std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - bias - format.mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
T Apply(Reduction reduction, T a, T b) {
  if constexpr (std::is_integral<T>::value) {
    // 64 bits hold the low bits of any sum and product.
    const std::uint64_t wide_a = static_cast<std::make_unsigned_t<T>>(a);
    const std::uint64_t wide_b = static_cast<std::make_unsigned_t<T>>(b);
    if (reduction == Reduction::kSum) return static_cast<T>(wide_a + wide_b);
    if (reduction == Reduction::kProd) return static_cast<T>(wide_a * wide_b);
  } else {
    if (reduction == Reduction::kSum) return a + b;
    if (reduction == Reduction::kProd) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  }
  if (reduction == Reduction::kMax) return b > a ? b : a;
  return b < a ? b : a;
}

template <typename T>
T At(const Bytes& bytes, std::uint64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Put(Bytes* bytes, std::uint64_t i, T value) {
  std::memcpy(bytes->data() + i * sizeof(T), &value, sizeof(T));
}

template <typename T>
Bytes ReduceAs(Reduction reduction, const std::vector<Bytes>& inputs, std::uint64_t count) {
  Bytes result(count * sizeof(T));
  for (std::uint64_t i = 0; i < count; ++i) {
    T value = At<T>(inputs[0], i);
    for (std::size_t r = 1; r < inputs.size(); ++r)
      value = Apply(reduction, value, At<T>(inputs[r], i));
    Put(&result, i, value);
  }
  return result;
}

Bytes ReduceHalf(DataType type, Reduction reduction, const std::vector<Bytes>& inputs,
                 std::uint64_t count) {
  Bytes result(count * 2);
  for (std::uint64_t i = 0; i < count; ++i) {
    float value = static_cast<float>(FloatValue(type, inputs[0].data() + 2 * i));
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      value =
          Apply(reduction, value, static_cast<float>(FloatValue(type, inputs[r].data() + 2 * i)));
    }
    Put(&result, i, RoundToHalf(type, value));
  }
  return result;
}

// splitmix64's finaliser.
std::uint64_t Mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool IsFloat(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 || type == DataType::kFloat32 ||
         type == DataType::kFloat64;
}

}  // namespace

const std::vector<DataType>& ReducibleTypes() {
  static const std::vector<DataType> types = {
      DataType::kInt8,    DataType::kInt16,   DataType::kInt32,   DataType::kInt64,
      DataType::kUint8,   DataType::kUint16,  DataType::kUint32,  DataType::kUint64,
      DataType::kFloat16, DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16};
  return types;
}

const std::vector<DataType>& AllTypes() {
  static const std::vector<DataType> types = [] {
    std::vector<DataType> all = ReducibleTypes();
    for (const DataType type : {DataType::kBool, DataType::kComplex64, DataType::kComplex128}) {
      all.push_back(type);
    }
    return all;
  }();
  return types;
}

const std::vector<Reduction>& AllReductions() {
  static const std::vector<Reduction> reductions = {Reduction::kSum, Reduction::kProd,
                                                    Reduction::kMax, Reduction::kMin};
  return reductions;
}

double FloatValue(DataType type, const void* element) {
  if (type == DataType::kFloat32) {
    float value;
    std::memcpy(&value, element, sizeof(value));
    return static_cast<double>(value);
  }
  if (type == DataType::kFloat64) {
    double value;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, element, sizeof(bits));
  return HalfValue(FormatOf(type), bits);
}

std::uint16_t RoundToHalf(DataType type, float value) {
  const HalfFormat format = FormatOf(type);
  const int top = (1 << format.exponent_bits) - 1;
  const int bias = top / 2;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto infinity = static_cast<std::uint16_t>(top << format.mantissa_bits);
  if (std::isnan(value)) return sign | infinity | (1u << (format.mantissa_bits - 1));
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent = std::ilogb(magnitude);
  exponent = std::max(exponent, 1 - bias);
  // Exact: one unit in the last place becomes 1. nearbyint rounds to nearest even.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A carry out of the mantissa runs into the exponent, which is what it should do.
  const auto bits =
      static_cast<std::uint32_t>(units + std::ldexp(exponent + bias - 1, format.mantissa_bits));
  return sign | static_cast<std::uint16_t>(std::min<std::uint32_t>(bits, infinity));
}

Bytes MakeInput(DataType type, std::uint64_t count, std::uint64_t seed, std::uint64_t begin) {
  const std::size_t element = DataTypeSize(type);
  const std::uint64_t key = Mixed(seed * 256 + static_cast<std::uint64_t>(type));
  Bytes bytes(count * element);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = Mixed(key + begin + i);
    // Mostly values of moderate size, so that sums and products stay finite now and then.
    const double moderate = (static_cast<double>(bits >> 40) / 8388608.0 - 1.0) * 3.0;
    const bool special = bits % 16 == 0;
    if (!IsFloat(type)) {
      std::memcpy(bytes.data() + i * element, &bits, std::min(element, sizeof(bits)));
      if (element > sizeof(bits)) {
        std::memcpy(bytes.data() + i * element + sizeof(bits), &bits, sizeof(bits));
      }
      if (type == DataType::kBool) bytes[i] = static_cast<char>(bits & 1);
    } else if (special) {
      const std::uint64_t any = Mixed(bits);
      std::memcpy(bytes.data() + i * element, &any, element);  // any bits at all
    } else if (type == DataType::kFloat64) {
      Put(&bytes, i, moderate);
    } else if (type == DataType::kFloat32) {
      Put(&bytes, i, static_cast<float>(moderate));
    } else {
      // Of either sign, between 1/4 and 2.
      const std::uint16_t one = type == DataType::kFloat16 ? 0x3c00 : 0x3f80;
      const std::uint16_t varied = type == DataType::kFloat16 ? 0x87ff : 0x80ff;
      Put(&bytes, i, static_cast<std::uint16_t>(one ^ ((bits >> 32) & varied)));
    }
  }
  return bytes;
}

Bytes ReferenceReduce(DataType type, Reduction reduction, const std::vector<Bytes>& inputs,
                      std::uint64_t count) {
  if (inputs.size() == 1) return inputs[0];
  switch (type) {
    case DataType::kInt8:
      return ReduceAs<std::int8_t>(reduction, inputs, count);
    case DataType::kInt16:
      return ReduceAs<std::int16_t>(reduction, inputs, count);
    case DataType::kInt32:
      return ReduceAs<std::int32_t>(reduction, inputs, count);
    case DataType::kInt64:
      return ReduceAs<std::int64_t>(reduction, inputs, count);
    case DataType::kUint8:
      return ReduceAs<std::uint8_t>(reduction, inputs, count);
    case DataType::kUint16:
      return ReduceAs<std::uint16_t>(reduction, inputs, count);
    case DataType::kUint32:
      return ReduceAs<std::uint32_t>(reduction, inputs, count);
    case DataType::kUint64:
      return ReduceAs<std::uint64_t>(reduction, inputs, count);
    case DataType::kFloat32:
      return ReduceAs<float>(reduction, inputs, count);
    case DataType::kFloat64:
      return ReduceAs<double>(reduction, inputs, count);
    default:
      return ReduceHalf(type, reduction, inputs, count);
  }
}

std::string Difference(DataType type, const void* found, const Bytes& expected, bool any_nan) {
  const char* bytes = static_cast<const char*>(found);
  if (expected.empty()) return "";
  if (bytes == nullptr) return "no memory, expected " + std::to_string(expected.size()) + " bytes";
  if (std::memcmp(bytes, expected.data(), expected.size()) == 0) return "";
  const std::size_t element = DataTypeSize(type);
  for (std::size_t i = 0; i < expected.size() / element; ++i) {
    const char* a = bytes + i * element;
    const char* b = expected.data() + i * element;
    if (std::memcmp(a, b, element) == 0) continue;
    if (any_nan && IsFloat(type) && std::isnan(FloatValue(type, a)) &&
        std::isnan(FloatValue(type, b))) {
      continue;
    }
    std::string text = "element " + std::to_string(i) + " of " +
                       std::to_string(expected.size() / element) + " differs";
    if (IsFloat(type)) {
      text += ": found " + std::to_string(FloatValue(type, a)) + ", expected " +
              std::to_string(FloatValue(type, b));
    }
    return text;
  }
  return "";
}

}  // namespace conformance
}  // namespace npu_bridge
