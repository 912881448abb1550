// Runs once in each step of a graph with collectives, before any of them.
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "csrc/common/step_counter.h"
#include "csrc/tf/attributes.h"
#include "csrc/tf/kernels/group_epoch.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace npu_bridge {
namespace {

class StepMarkerKernel : public tensorflow::OpKernel {
 public:
  explicit StepMarkerKernel(tensorflow::OpKernelConstruction* construction)
      : OpKernel(construction) {
    Load(construction, kMarkerGroups, kMarkerTags, StepSource::kOwnGraph);
    Load(construction, kMarkerCalledGroups, kMarkerCalledTags, StepSource::kCaller);
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    for (const auto& group : groups_) {
      const std::uint64_t epoch = GroupEpoch(group.first);
      for (const Counted& counted : group.second) {
        counted.counter->Begin(context->step_id(), epoch, counted.source);
      }
    }
  }

 private:
  struct Counted {
    StepCounter* counter;
    StepSource source;
  };

  void Load(tensorflow::OpKernelConstruction* construction, const char* groups_attribute,
            const char* tags_attribute, StepSource source) {
    std::vector<std::string> groups;
    std::vector<std::string> tags;
    OP_REQUIRES_OK(construction, construction->GetAttr(groups_attribute, &groups));
    OP_REQUIRES_OK(construction, construction->GetAttr(tags_attribute, &tags));
    for (std::size_t i = 0; i < groups.size() && i < tags.size(); ++i) {
      groups_[groups[i]].push_back({&StepCounterFor(groups[i], tags[i]), source});
    }
  }

  std::unordered_map<std::string, std::vector<Counted>> groups_;
};

}  // namespace

REGISTER_KERNEL_BUILDER(Name("_HcomStepMarker").Device(tensorflow::DEVICE_CPU), StepMarkerKernel);

}  // namespace npu_bridge
