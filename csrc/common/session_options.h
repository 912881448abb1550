// What scripts write into the parameter_map of NpuOptimizer, on its way to Python, which checks and
// keeps it.
#ifndef NPU_BRIDGE_CSRC_COMMON_SESSION_OPTIONS_H_
#define NPU_BRIDGE_CSRC_COMMON_SESSION_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace npu_bridge {

// A value as the script gave it. Any bytes, any number.
struct SessionOptionValue {
  // The field of TensorFlow's AttrValue that is set: "b", "i", "f", "s", "list", "type" and so on;
  // empty where none is. Of the members below, "b" sets boolean and so on; "list" and the kinds
  // that no option has set none.
  std::string kind;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
};

struct SessionOption {
  std::string name;
  SessionOptionValue value;
  std::vector<SessionOptionValue> elements;  // of a list, those of kinds b, i, f and s
};

// Called for each graph that a session with NpuOptimizer in its configuration optimizes.
using SessionOptionsHook = std::function<void(const std::vector<SessionOption>&)>;

// Without a hook nothing is kept. From any thread.
void SetSessionOptionsHook(SessionOptionsHook hook);

void ReportSessionOptions(const std::vector<SessionOption>& options);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_SESSION_OPTIONS_H_
