#include "csrc/tf/passes/fusion_rules_plan.h"

#include <limits>

namespace npu_bridge {
namespace {

std::string FusionError(const FusionCollective& collective) {
  const std::string values = "fusion is " + std::to_string(collective.fusion) +
                             " and fusion_id is " + std::to_string(collective.fusion_id);
  const bool may_split = collective.kind == Collective::kAllReduce;
  if (collective.fusion == 1 && may_split) {
    return collective.fusion_id == -1 ? "" : values + ": fusion 1 needs fusion_id -1";
  }
  if (collective.fusion == 2) {
    return collective.fusion_id >= 0 &&
                   collective.fusion_id <= std::numeric_limits<std::int32_t>::max()
               ? ""
               : values + ": fusion 2 needs a fusion_id from 0 to 2147483647";
  }
  return values + ": allowed are " + (may_split ? "0, 1 and 2" : "0 and 2");
}

}  // namespace

std::string WhyNeverFused(const FusionCollective& collective) {
  switch (collective.kind) {
    case Collective::kSend:
    case Collective::kReceive:
    case Collective::kAllToAllV:
      return std::string(CollectiveName(collective.kind)) + " is never merged";
    default:
      break;
  }
  if (collective.fusion == 0) return "fusion is 0";
  const std::string error = FusionError(collective);
  if (!error.empty()) return error;
  if (IsReducing(collective.kind) && collective.reduction != Reduction::kSum) {
    return std::string("reduction is ") + ReductionName(collective.reduction) +
           ", only sum is merged";
  }
  if (collective.types.empty()) return "it has no tensor";
  for (const DataType type : collective.types) {
    if (type == DataType::kInvalid) return "a dtype cannot be moved";
    if (type != collective.types[0]) return "its list has several dtypes: one exchange already";
  }
  if (collective.bytes < 0) return "its shape is not fully known before it runs";
  return "";
}

std::string FusionKey(const FusionCollective& collective) {
  std::string key =
      std::string(CollectiveName(collective.kind)) + " group " + collective.group + " fusion_id " +
      std::to_string(collective.fusion_id) + " " +
      DataTypeName(collective.types.empty() ? DataType::kInvalid : collective.types[0]);
  if (IsReducing(collective.kind)) key += std::string(" ") + ReductionName(collective.reduction);
  switch (collective.kind) {
    case Collective::kBroadcast:
    case Collective::kReduce:
      return key + " root_rank " + std::to_string(collective.root_rank);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return key + " rank_size " + std::to_string(collective.rank_size);
    case Collective::kAllToAllVC:
      return key + " rank " + std::to_string(collective.rank);
    default:
      return key;
  }
}

}  // namespace npu_bridge
