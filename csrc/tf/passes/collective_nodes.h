// Finds the collectives of a graph, for the passes.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_COLLECTIVE_NODES_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_COLLECTIVE_NODES_H_

#include <string>
#include <vector>

#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace npu_bridge {

// What a step count belongs to.
struct CountedTag {
  std::string group;
  std::string tag;

  bool operator<(const CountedTag& other) const {
    return group != other.group ? group < other.group : tag < other.tag;
  }
  bool operator==(const CountedTag& other) const {
    return group == other.group && tag == other.tag;
  }
};

// Whether ops of this name meet their peers by a tag and a step count (sends and receives have
// counters of their own).
bool IsCountedCollective(const std::string& op);

// The group, and the tag that Python wrote or, without it, the name less lowering counters.
CountedTag TagOf(const tensorflow::NodeDef& node);

// A node that runs functions in which there are collectives.
struct CollectiveCaller {
  tensorflow::Node* node;
  std::vector<CountedTag> tags;
};

struct CollectiveNodes {
  std::vector<tensorflow::Node*> collectives;
  std::vector<CollectiveCaller> callers;

  bool empty() const { return collectives.empty() && callers.empty(); }
};

// Functions are looked up in `library`, and in what they call in turn.
CollectiveNodes FindCollectives(const tensorflow::Graph& graph,
                                const tensorflow::FunctionLibraryDefinition& library);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_COLLECTIVE_NODES_H_
