#include "tests/cpp/conformance_test_base.h"

namespace npu_bridge {
namespace conformance {
namespace {

using LoopbackConformance = ConformanceTest;

TEST_P(LoopbackConformance, Passes) { RunOver(MakeThreadCluster("loopback")); }

INSTANTIATE_TEST_SUITE_P(Cases, LoopbackConformance,
                         testing::ValuesIn(CasesFor(/*ranks_are_processes=*/false)), NameOf);

}  // namespace
}  // namespace conformance
}  // namespace npu_bridge
