// Cuts the gradients of a group by its split strategy.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_SPLIT_STRATEGY_PLAN_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_SPLIT_STRATEGY_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "csrc/common/fusion_settings.h"
#include "csrc/common/status.h"

namespace npu_bridge {

// Gives each gradient the number of its part.
//
// `bytes` are those of the group's gradients in graph order; one of unknown size (-1) counts for
// indices, not for shares. By index: gradients after the last index make a part of their own. By
// size: a gradient belongs to the first part whose share, with those of the parts before it, holds
// all bytes up to the gradient's end.
//
// An error when an index is beyond the gradients.
Status SplitGradients(const std::string& group, const SplitStrategy& strategy,
                      const std::vector<std::int64_t>& bytes, std::vector<std::size_t>* parts);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_SPLIT_STRATEGY_PLAN_H_
