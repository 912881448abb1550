#include "csrc/transport/conformance/cases.h"

namespace npu_bridge {
namespace conformance {

const std::vector<Case>& AllCases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (const auto& part : {ValueCases(), ConcurrencyCases(), MemoryCases(), DeathCases()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return cases;
}

}  // namespace conformance
}  // namespace npu_bridge
