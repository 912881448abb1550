// Element types that collectives move. The numbers are those of HcclDataType, so that the device
// library needs no table; types that only a broadcast may carry (moved as plain bytes) follow.
#ifndef NPU_BRIDGE_CSRC_COMMON_DATA_TYPE_H_
#define NPU_BRIDGE_CSRC_COMMON_DATA_TYPE_H_

#include <cstddef>
#include <cstdint>

namespace npu_bridge {

enum class DataType : std::int32_t {
  kInt8 = 0,
  kInt16 = 1,
  kInt32 = 2,
  kFloat16 = 3,
  kFloat32 = 4,
  kInt64 = 5,
  kUint64 = 6,
  kUint8 = 7,
  kUint16 = 8,
  kUint32 = 9,
  kFloat64 = 10,
  kBfloat16 = 11,
  // Broadcast only: no transport adds these up.
  kBool = 64,
  kComplex64 = 65,
  kComplex128 = 66,
  kInvalid = -1,
};

// Bytes of one element; 0 for kInvalid.
std::size_t DataTypeSize(DataType type);

// TensorFlow's name of the type ("float32"); "invalid" for kInvalid.
const char* DataTypeName(DataType type);

// Whether sum, prod, min and max are defined for the type.
bool IsReducible(DataType type);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_DATA_TYPE_H_
