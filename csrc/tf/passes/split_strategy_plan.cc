#include "csrc/tf/passes/split_strategy_plan.h"

#include <algorithm>
#include <iterator>

namespace npu_bridge {
namespace {

// Of the device's library, for groups that have set none.
const double kDefaultPercentages[] = {96.54, 3.46};
// 96.54 and 3.46 make less than 100 in binary; a share is never that close to a gradient's end.
constexpr double kTolerance = 1e-9;

Status SplitByIndex(const std::string& group, const std::vector<std::int64_t>& last_indices,
                    std::size_t gradients, std::vector<std::size_t>* parts) {
  if (last_indices.back() >= static_cast<std::int64_t>(gradients)) {
    return InvalidArgument(
        "set_split_strategy_by_idx of group " + group + " has the index " +
        std::to_string(last_indices.back()) + ", but the graph has " + std::to_string(gradients) +
        " gradients of the group (HcomAllReduce with fusion 1): the last index may be " +
        std::to_string(static_cast<std::int64_t>(gradients) - 1) +
        ". Give the indices of this graph's gradients.");
  }
  for (std::size_t i = 0; i < gradients; ++i) {
    const auto part =
        std::lower_bound(last_indices.begin(), last_indices.end(), static_cast<std::int64_t>(i));
    parts->push_back(static_cast<std::size_t>(part - last_indices.begin()));
  }
  return Status();
}

void SplitBySize(const std::vector<double>& percentages, const std::vector<std::int64_t>& bytes,
                 std::vector<std::size_t>* parts) {
  double total = 0;
  for (const std::int64_t size : bytes)
    total += static_cast<double>(std::max<std::int64_t>(size, 0));
  double end = 0;
  double share = percentages[0];
  std::size_t part = 0;
  for (const std::int64_t size : bytes) {
    end += static_cast<double>(std::max<std::int64_t>(size, 0));
    while (part + 1 < percentages.size() && 100 * end > (share + kTolerance) * total) {
      share += percentages[++part];
    }
    parts->push_back(part);
  }
}

}  // namespace

Status SplitGradients(const std::string& group, const SplitStrategy& strategy,
                      const std::vector<std::int64_t>& bytes, std::vector<std::size_t>* parts) {
  parts->clear();
  if (!strategy.last_indices.empty()) {
    return SplitByIndex(group, strategy.last_indices, bytes.size(), parts);
  }
  std::vector<double> percentages = strategy.percentages;
  if (percentages.empty()) {
    percentages.assign(std::begin(kDefaultPercentages), std::end(kDefaultPercentages));
  }
  SplitBySize(percentages, bytes, parts);
  return Status();
}

}  // namespace npu_bridge
