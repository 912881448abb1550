// Names of the attributes that are ours rather than the published ops'. TensorFlow accepts any
// attribute that starts with "_" on a node and keeps it through its rewrites.
#ifndef NPU_BRIDGE_CSRC_TF_ATTRIBUTES_H_
#define NPU_BRIDGE_CSRC_TF_ATTRIBUTES_H_

namespace npu_bridge {

// string: what pairs the op with its peers' on the other ranks. Python writes it when it makes an
// op in a graph; the step marker pass writes it where it is absent. A kernel without it, and whose
// node has the op's own name, runs eagerly.
constexpr const char* kTagAttribute = "_npu_tag";

// list(string), one a data input: what the program calls the tensor, "" where it has no name.
// Written by Python where ranks are to compare the names.
constexpr const char* kInputNamesAttribute = "_npu_input_names";

// An eager op takes no attribute that its definition lacks. There the names follow the group's,
// each behind a separator: "hccl_world_group<mark><separator>kernel:0<separator>bias:0".
constexpr const char* kEagerNamesMark = "\x1f_npu_input_names";
constexpr char kEagerNamesSeparator = '\x1f';

// list(int): of the list whose entry the op reduces, the positions that are None on this rank.
// Absent where none is.
constexpr const char* kAbsentEntriesAttribute = "_npu_absent_entries";

// list(shape): of each data input, as Python saw it when it made the op in a graph.
constexpr const char* kStaticShapeAttribute = "_npu_static_shape";

// list(string): of an op that the fusion pass made, the tags and the names of its members. A member
// has as many tensors as list(int) says.
constexpr const char* kMembersAttribute = "_npu_members";
constexpr const char* kMemberNamesAttribute = "_npu_member_names";
constexpr const char* kMemberTensorsAttribute = "_npu_member_tensors";

// The internal op that counts steps, and its attributes: list(string), entry i of a tag list
// belongs to entry i of the group list.
constexpr const char* kStepMarkerOp = "_HcomStepMarker";
constexpr const char* kMarkerTags = "tags";
constexpr const char* kMarkerGroups = "groups";
constexpr const char* kMarkerCalledTags = "called_tags";
constexpr const char* kMarkerCalledGroups = "called_groups";

// The internal op by which a script asks for several iterations a step, and what the pass that
// makes the loop leaves on it: bool.
constexpr const char* kIterationsOp = "_NpuIterations";
constexpr const char* kIsLoopAttribute = "_npu_is_loop";

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_ATTRIBUTES_H_
