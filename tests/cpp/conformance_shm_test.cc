#include "tests/cpp/conformance_test_base.h"

namespace npu_bridge {
namespace conformance {
namespace {

using ShmThreadConformance = ConformanceTest;

TEST_P(ShmThreadConformance, Passes) { RunOver(MakeThreadCluster("shm")); }

INSTANTIATE_TEST_SUITE_P(Cases, ShmThreadConformance,
                         testing::ValuesIn(CasesFor(/*ranks_are_processes=*/false)), NameOf);

}  // namespace
}  // namespace conformance
}  // namespace npu_bridge
