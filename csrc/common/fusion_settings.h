// What bounds and steers the merging of collectives. Set from Python, read by the graph passes.
#ifndef NPU_BRIDGE_CSRC_COMMON_FUSION_SETTINGS_H_
#define NPU_BRIDGE_CSRC_COMMON_FUSION_SETTINGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace npu_bridge {

// How the gradients of a group (fusion 1) are cut, in graph order. At most one list has entries;
// none: one segment for 96.54 % of the bytes and one for the rest.
struct SplitStrategy {
  std::vector<std::int64_t> last_indices;  // of each segment, ascending
  std::vector<double> percentages;         // of the bytes, summing to 100
};

struct FusionSettings {
  bool enabled = true;
  std::int64_t segment_bytes = 524288000;
  std::map<std::string, SplitStrategy> split_strategies;  // by group
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_FUSION_SETTINGS_H_
