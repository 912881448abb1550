#include "csrc/tf/data_types.h"

namespace npu_bridge {

DataType FromTfDataType(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_INT8:
      return DataType::kInt8;
    case tensorflow::DT_INT16:
      return DataType::kInt16;
    case tensorflow::DT_INT32:
      return DataType::kInt32;
    case tensorflow::DT_INT64:
      return DataType::kInt64;
    case tensorflow::DT_UINT8:
      return DataType::kUint8;
    case tensorflow::DT_UINT16:
      return DataType::kUint16;
    case tensorflow::DT_UINT32:
      return DataType::kUint32;
    case tensorflow::DT_UINT64:
      return DataType::kUint64;
    case tensorflow::DT_HALF:
      return DataType::kFloat16;
    case tensorflow::DT_FLOAT:
      return DataType::kFloat32;
    case tensorflow::DT_DOUBLE:
      return DataType::kFloat64;
    case tensorflow::DT_BFLOAT16:
      return DataType::kBfloat16;
    case tensorflow::DT_BOOL:
      return DataType::kBool;
    case tensorflow::DT_COMPLEX64:
      return DataType::kComplex64;
    case tensorflow::DT_COMPLEX128:
      return DataType::kComplex128;
    default:
      break;
  }
  if (!tensorflow::DataTypeCanUseMemcpy(type)) return DataType::kInvalid;
  switch (tensorflow::DataTypeSize(type)) {
    case 1:
      return DataType::kUint8;
    case 2:
      return DataType::kUint16;
    case 4:
      return DataType::kUint32;
    case 8:
      return DataType::kUint64;
    default:
      return DataType::kInvalid;
  }
}

}  // namespace npu_bridge
