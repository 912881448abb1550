#include "csrc/tf/kernels/collective_kernel.h"

#include <cstddef>
#include <utility>

#include "csrc/comm/world.h"
#include "csrc/common/tag.h"
#include "csrc/tf/attributes.h"
#include "csrc/tf/compat.h"
#include "csrc/tf/kernels/group_epoch.h"
#include "csrc/tf/kernels/pending_collective.h"

namespace npu_bridge {

namespace {

// What the fusion pass wrote; empty for an op of the program. Lists that do not fit each other are
// of a GraphDef that somebody else has written.
std::vector<FusedMember> ReadMembers(tensorflow::OpKernelConstruction* construction) {
  std::vector<std::string> tags;
  std::vector<std::string> names;
  std::vector<TfInt64> tensors;
  std::vector<FusedMember> members;
  if (!construction->HasAttr(kMembersAttribute) ||
      !construction->GetAttr(kMembersAttribute, &tags).ok() ||
      !construction->GetAttr(kMemberNamesAttribute, &names).ok() ||
      !construction->GetAttr(kMemberTensorsAttribute, &tensors).ok() ||
      names.size() != tags.size() || tensors.size() != tags.size()) {
    return members;
  }
  for (std::size_t i = 0; i < tags.size(); ++i) members.push_back({tags[i], names[i], tensors[i]});
  return members;
}

}  // namespace

CollectiveKernel::CollectiveKernel(tensorflow::OpKernelConstruction* construction,
                                   Collective collective, RequestBuilder builder)
    : AsyncOpKernel(construction), collective_(collective), builder_(builder) {
  attribute_error_ = ReadCollectiveAttributes(construction, collective, &attributes_);
  if (construction->HasAttr(kTagAttribute)) {
    // A tag of another type than string is no tag.
    if (!construction->GetAttr(kTagAttribute, &tag_).ok()) tag_.clear();
  }
  if (tag_.empty()) {
    // The step marker pass gives every collective of a graph a tag. What comes without one is an
    // eager op, whose node TensorFlow names after the op, or an op in a function that TensorFlow
    // runs without passes.
    is_eager_ = name() == type_string();
    // No node name has a space, so that an eager op never meets one of a graph.
    tag_ = is_eager_ ? "eager " + type_string() : StripLoweringCounters(name());
  }
  members_ = ReadMembers(construction);
  name_ = name();
  if (members_.size() > 1) {
    name_ = members_[0].name + " and " + std::to_string(members_.size() - 1) + " more";
  }
  counter_ = &StepCounterFor(attributes_.group, tag_);
}

void CollectiveKernel::FillKey(tensorflow::OpKernelContext* context,
                               CollectiveRequest* request) const {
  request->tag = tag_;
  const tensorflow::FrameAndIter frame = context->frame_iter();
  request->frame_id = frame.frame_id;
  request->iteration = frame.iter_id;
  // A send or receive is counted by the world, for each pair of ranks on its own.
  if (IsPointToPoint(collective_)) return;
  request->step = is_eager_ ? counter_->NextCall(GroupEpoch(attributes_.group))
                            : counter_->Find(context->step_id());
}

void CollectiveKernel::ComputeAsync(tensorflow::OpKernelContext* context, DoneCallback done) {
  auto request = std::make_shared<CollectiveRequest>();
  request->collective = collective_;
  request->reduction = attributes_.reduction;
  request->group = attributes_.group;
  request->node_name = name_;
  request->members = members_;
  request->root_rank = attributes_.root_rank;
  request->peer_rank = attributes_.peer_rank;
  request->send_receive_tag = attributes_.sr_tag;
  request->rank_size = attributes_.rank_size;
  request->claimed_rank = attributes_.rank;
  request->absent_entries = attributes_.absent_entries;
  FillKey(context, request.get());

  request->refusal = builder_(attributes_, context, request.get());
  if (attributes_.input_names.size() == request->tensors.size()) {
    for (std::size_t i = 0; i < request->tensors.size(); ++i) {
      request->tensors[i].name = attributes_.input_names[i];
    }
  }
  if (!attribute_error_.ok()) request->refusal = attribute_error_;
  PendingCollective::Start(context, std::move(done), std::move(request));
}

}  // namespace npu_bridge
