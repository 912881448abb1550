// TensorFlow's element types as transports know them.
#ifndef NPU_BRIDGE_CSRC_TF_DATA_TYPES_H_
#define NPU_BRIDGE_CSRC_TF_DATA_TYPES_H_

#include "csrc/common/data_type.h"
#include "tensorflow/core/framework/types.h"

namespace npu_bridge {

// kInvalid for types without a fixed size (string, resource, variant). Types that no transport
// knows but that have one (the quantized ones) come as unsigned integers of their size: right for
// a broadcast, which only moves bytes, and no other op accepts them.
DataType FromTfDataType(tensorflow::DataType type);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_DATA_TYPES_H_
