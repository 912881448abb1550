// An order of a graph's nodes that does not depend on the order in which they were created.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_GRAPH_ORDER_PLAN_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_GRAPH_ORDER_PLAN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "csrc/common/status.h"

namespace npu_bridge {

// Whom each node leads to.
using Successors = std::vector<std::vector<std::size_t>>;

// Topological, and among nodes that are ready the one with the smaller name first, numbers in names
// compared as numbers. An error when there is a cycle.
Status OrderByName(const std::vector<std::string>& names, const Successors& successors,
                   std::vector<std::size_t>* order);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_GRAPH_ORDER_PLAN_H_
