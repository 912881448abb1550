#include "csrc/tf/passes/frame_names_plan.h"

#include "csrc/common/tag.h"

namespace npu_bridge {

std::map<std::string, std::string> PlanFrameNames(const std::set<std::string>& all,
                                                  const std::set<std::string>& wanted) {
  std::map<std::string, int> claims;
  for (const std::string& name : all) ++claims[StripLoweringCounters(name)];
  std::map<std::string, std::string> renamed;
  for (const std::string& name : wanted) {
    std::string stripped = StripLoweringCounters(name);
    if (stripped != name && claims[stripped] == 1) renamed[name] = std::move(stripped);
  }
  return renamed;
}

}  // namespace npu_bridge
