// Names that pair an op with its peers' on the other ranks.
#ifndef NPU_BRIDGE_CSRC_COMMON_TAG_H_
#define NPU_BRIDGE_CSRC_COMMON_TAG_H_

#include <string>

namespace npu_bridge {

// `name` without the components "_<number>" that TensorFlow puts into node names when it lowers
// cond and while: "while/body/_1/while/body/_59/x" gives "while/body/while/body/x". Those numbers
// count per graph, so a rank whose graph has one more loop has others.
std::string StripLoweringCounters(const std::string& name);

// Orders names with numbers in them as people do: "call_9" before "call_10". A total order: names
// that differ only in leading zeros are ordered by their bytes.
bool NaturalLess(const std::string& a, const std::string& b);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_TAG_H_
