#include "csrc/common/collective_request.h"

namespace npu_bridge {

std::string DescribeTensor(DataType type, const std::vector<std::int64_t>& shape) {
  std::string text = DataTypeName(type);
  text += " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(shape[i]);
  }
  text += "]";
  return text;
}

}  // namespace npu_bridge
