#include "csrc/transport/conformance/cases.h"

#include <utility>

namespace npu_bridge {
namespace conformance {

Case OneWorldCase(const std::string& name, std::vector<int> sizes, const Body& body) {
  Case made;
  made.name = name;
  made.sizes = std::move(sizes);
  made.run = [body](Cluster& cluster, int size) {
    WorldOptions options;
    options.size = size;
    return cluster.Run(options, body);
  };
  return made;
}

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
