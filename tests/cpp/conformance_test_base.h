// Runs the conformance suite of csrc/transport/conformance over a cluster, one test a case and
// size.
#ifndef NPU_BRIDGE_TESTS_CPP_CONFORMANCE_TEST_BASE_H_
#define NPU_BRIDGE_TESTS_CPP_CONFORMANCE_TEST_BASE_H_

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "csrc/transport/conformance/cases.h"

namespace npu_bridge {
namespace conformance {

struct CaseAndSize {
  const Case* test_case;
  int size;
};

// What googletest shows as the parameter; without it, an address that changes from build to build.
inline void PrintTo(const CaseAndSize& value, std::ostream* out) {
  *out << value.test_case->name << " over " << value.size;
}

inline std::vector<CaseAndSize> CasesFor(bool ranks_are_processes) {
  std::vector<CaseAndSize> all;
  for (const Case& test_case : AllCases()) {
    if (test_case.needs_processes && !ranks_are_processes) continue;
    for (const int size : test_case.sizes) all.push_back({&test_case, size});
  }
  return all;
}

inline std::string NameOf(const testing::TestParamInfo<CaseAndSize>& info) {
  return info.param.test_case->name + "_" + std::to_string(info.param.size) + "_ranks";
}

class ConformanceTest : public testing::TestWithParam<CaseAndSize> {
 protected:
  void RunOver(const std::unique_ptr<Cluster>& cluster) {
    const std::vector<std::string> failures = GetParam().test_case->run(*cluster, GetParam().size);
    std::string text;
    for (std::size_t i = 0; i < failures.size() && i < 20; ++i) text += failures[i] + "\n";
    EXPECT_TRUE(failures.empty()) << failures.size() << " failures:\n" << text;
  }
};

}  // namespace conformance
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_TESTS_CPP_CONFORMANCE_TEST_BASE_H_
