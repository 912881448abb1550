#include "csrc/tf/kernels/collective_attributes.h"

#include <cstddef>
#include <limits>

#include "csrc/tf/attributes.h"
#include "csrc/tf/compat.h"

namespace npu_bridge {
namespace {

using tensorflow::OpKernelConstruction;

Status FromTf(const TfStatus& status) {
  return status.ok() ? Status() : InvalidArgument(MessageOf(status));
}

Status ReadInteger(OpKernelConstruction* construction, const char* name, std::int64_t* value) {
  if (!construction->HasAttr(name)) return Status();
  TfInt64 read = 0;
  const TfStatus status = construction->GetAttr(name, &read);
  if (status.ok()) *value = read;
  return FromTf(status);
}

Status ReadRank(OpKernelConstruction* construction, const char* name, std::int32_t* rank) {
  std::int64_t value = *rank;
  Status status = ReadInteger(construction, name, &value);
  if (!status.ok()) return status;
  // The world checks the range, which it knows; a value that 32 bits lose could look right there.
  if (value != static_cast<std::int32_t>(value)) {
    return InvalidArgument(std::string(name) + " is " + std::to_string(value) +
                           ", it must be a rank of the group: 0 to its size less one.");
  }
  *rank = static_cast<std::int32_t>(value);
  return Status();
}

Status ReadReduction(OpKernelConstruction* construction, Reduction* reduction) {
  if (!construction->HasAttr("reduction")) return Status();
  std::string name;
  const TfStatus status = construction->GetAttr("reduction", &name);
  if (!status.ok()) return FromTf(status);
  for (Reduction candidate :
       {Reduction::kSum, Reduction::kProd, Reduction::kMax, Reduction::kMin}) {
    if (name == ReductionName(candidate)) {
      *reduction = candidate;
      return Status();
    }
  }
  return InvalidArgument("reduction is '" + name + "', allowed are min, max, prod and sum.");
}

Status CheckFusion(Collective collective, std::int64_t fusion, std::int64_t fusion_id) {
  const bool may_split = collective == Collective::kAllReduce;
  if (fusion == 0) return Status();
  if (fusion == 1 && may_split) {
    if (fusion_id == -1) return Status();
    return InvalidArgument("fusion is 1 and fusion_id is " + std::to_string(fusion_id) +
                           ": with fusion 1, fusion_id must be -1.");
  }
  if (fusion == 2) {
    if (fusion_id >= 0 && fusion_id <= std::numeric_limits<std::int32_t>::max()) return Status();
    return InvalidArgument("fusion is 2 and fusion_id is " + std::to_string(fusion_id) +
                           ": with fusion 2, fusion_id must be 0 to 2147483647.");
  }
  return InvalidArgument("fusion is " + std::to_string(fusion) + " and fusion_id is " +
                         std::to_string(fusion_id) + ": fusion must be " +
                         (may_split ? "0, 1 or 2." : "0 or 2."));
}

// Takes the names that follow an eager op's group off it.
void SplitEagerNames(std::string* group, std::vector<std::string>* names) {
  const std::size_t mark = group->find(kEagerNamesMark);
  if (mark == std::string::npos) return;
  std::size_t begin = group->find(kEagerNamesSeparator, mark + 1);
  while (begin != std::string::npos) {
    const std::size_t end = group->find(kEagerNamesSeparator, begin + 1);
    names->push_back(group->substr(begin + 1, end == std::string::npos ? end : end - begin - 1));
    begin = end;
  }
  group->resize(mark);
}

// Attributes of ours that a graph may hold, whoever made it: one of another type is none.
void ReadPrivateAttributes(OpKernelConstruction* construction, CollectiveAttributes* attributes) {
  if (construction->HasAttr(kInputNamesAttribute) &&
      !construction->GetAttr(kInputNamesAttribute, &attributes->input_names).ok()) {
    attributes->input_names.clear();
  }
  std::vector<TfInt64> absent;
  if (construction->HasAttr(kAbsentEntriesAttribute) &&
      construction->GetAttr(kAbsentEntriesAttribute, &absent).ok()) {
    attributes->absent_entries.assign(absent.begin(), absent.end());
  }
}

// Keeps the first error, so that all attributes are read whatever one of them holds.
void Keep(const Status& status, Status* first) {
  if (first->ok()) *first = status;
}

}  // namespace

Status ReadCollectiveAttributes(OpKernelConstruction* construction, Collective collective,
                                CollectiveAttributes* attributes) {
  Status first;
  if (construction->HasAttr("group")) {
    Keep(FromTf(construction->GetAttr("group", &attributes->group)), &first);
  }
  ReadPrivateAttributes(construction, attributes);
  SplitEagerNames(&attributes->group, &attributes->input_names);
  Keep(ReadReduction(construction, &attributes->reduction), &first);
  Keep(ReadInteger(construction, "fusion", &attributes->fusion), &first);
  Keep(ReadInteger(construction, "fusion_id", &attributes->fusion_id), &first);
  Keep(CheckFusion(collective, attributes->fusion, attributes->fusion_id), &first);
  Keep(ReadRank(construction, "root_rank", &attributes->root_rank), &first);
  Keep(ReadRank(construction, "dest_rank", &attributes->peer_rank), &first);
  Keep(ReadRank(construction, "src_rank", &attributes->peer_rank), &first);
  Keep(ReadInteger(construction, "sr_tag", &attributes->sr_tag), &first);
  Keep(ReadInteger(construction, "rank_size", &attributes->rank_size), &first);
  Keep(ReadInteger(construction, "rank", &attributes->rank), &first);
  if (construction->HasAttr("shape")) {
    Keep(FromTf(construction->GetAttr("shape", &attributes->shape)), &first);
  }
  return first;
}

}  // namespace npu_bridge
