#include "tests/cpp/conformance_test_base.h"

namespace npu_bridge {
namespace conformance {
namespace {

using ShmProcessConformance = ConformanceTest;

TEST_P(ShmProcessConformance, Passes) { RunOver(MakeProcessCluster("shm")); }

INSTANTIATE_TEST_SUITE_P(Cases, ShmProcessConformance,
                         testing::ValuesIn(CasesFor(/*ranks_are_processes=*/true)), NameOf);

}  // namespace
}  // namespace conformance
}  // namespace npu_bridge
