// The conformance suite: what every transport must do, as cases that run over any cluster.
//
// A transport passes when RunCase gives no failure for each case of AllCases(), each size in it,
// over each cluster that the transport can serve. tests/cpp has one file per transport.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_CASES_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "csrc/transport/conformance/rank.h"

namespace npu_bridge {
namespace conformance {

struct Case {
  std::string name;
  std::vector<int> sizes;        // numbers of ranks
  bool needs_processes = false;  // a rank dies in it
  std::function<std::vector<std::string>(Cluster&, int size)> run;
};

// A case in which every rank of one world runs `body`.
Case OneWorldCase(const std::string& name, std::vector<int> sizes, const Body& body);

const std::vector<Case>& AllCases();

// Parts of AllCases().
std::vector<Case> ValueCases();        // right results: every op, type, reduction and size
std::vector<Case> ConcurrencyCases();  // many at once, any order, groups, cancellation
std::vector<Case> MemoryCases();       // results that the transport hands out
std::vector<Case> DeathCases();        // a rank is killed

}  // namespace conformance
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_CASES_H_
