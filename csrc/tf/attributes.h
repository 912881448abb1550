// Names of the attributes that are ours rather than the published ops'. TensorFlow accepts any
// attribute that starts with "_" on a node and keeps it through its rewrites.
#ifndef NPU_BRIDGE_CSRC_TF_ATTRIBUTES_H_
#define NPU_BRIDGE_CSRC_TF_ATTRIBUTES_H_

namespace npu_bridge {

// string: what pairs the op with its peers' on the other ranks. Python writes it when it makes an
// op in a graph; the step marker pass writes it where it is absent. A kernel without it, and whose
// node has the op's own name, runs eagerly.
constexpr const char* kTagAttribute = "_npu_tag";

// The internal op that counts steps, and its attributes: list(string), entry i of a tag list
// belongs to entry i of the group list.
constexpr const char* kStepMarkerOp = "_HcomStepMarker";
constexpr const char* kMarkerTags = "tags";
constexpr const char* kMarkerGroups = "groups";
constexpr const char* kMarkerCalledTags = "called_tags";
constexpr const char* kMarkerCalledGroups = "called_groups";

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_ATTRIBUTES_H_
