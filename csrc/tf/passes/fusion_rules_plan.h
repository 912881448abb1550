// Which collectives may be merged at all, and with which others.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_FUSION_RULES_PLAN_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_FUSION_RULES_PLAN_H_

#include <string>

#include "csrc/tf/passes/fusion_graph.h"

namespace npu_bridge {

// Why an op joins no set whatever else the graph holds; empty when it may join one.
std::string WhyNeverFused(const FusionCollective& collective);

// Ops of equal keys may be merged; where they run is not part of it.
std::string FusionKey(const FusionCollective& collective);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_FUSION_RULES_PLAN_H_
