#include "csrc/tf/passes/collective_nodes.h"

#include <map>
#include <set>

#include "csrc/common/collective.h"
#include "csrc/common/tag.h"
#include "csrc/tf/attributes.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace npu_bridge {
namespace {

using tensorflow::FunctionLibraryDefinition;
using tensorflow::NodeDef;

// Calls of a function by its own name, and functions given as attributes (PartitionedCall, If,
// While, Case, data sets).
std::vector<std::string> FunctionsOf(const NodeDef& node,
                                     const FunctionLibraryDefinition& library) {
  std::vector<std::string> functions;
  if (library.Find(node.op()) != nullptr) functions.push_back(node.op());
  for (const auto& attribute : node.attr()) {
    if (attribute.second.has_func()) functions.push_back(attribute.second.func().name());
    for (const auto& function : attribute.second.list().func()) {
      functions.push_back(function.name());
    }
  }
  return functions;
}

class CalledTags {
 public:
  explicit CalledTags(const FunctionLibraryDefinition& library) : library_(library) {}

  std::vector<CountedTag> Of(const NodeDef& node) {
    std::set<std::string> visited;
    std::set<CountedTag> tags;
    std::vector<std::string> waiting = FunctionsOf(node, library_);
    while (!waiting.empty()) {
      const std::string function = waiting.back();
      waiting.pop_back();
      if (!visited.insert(function).second) continue;  // functions may be recursive
      const Body& body = BodyOf(function);
      tags.insert(body.tags.begin(), body.tags.end());
      waiting.insert(waiting.end(), body.functions.begin(), body.functions.end());
    }
    return std::vector<CountedTag>(tags.begin(), tags.end());
  }

 private:
  struct Body {
    std::vector<CountedTag> tags;
    std::vector<std::string> functions;
  };

  const Body& BodyOf(const std::string& function) {
    const auto known = bodies_.find(function);
    if (known != bodies_.end()) return known->second;
    Body& body = bodies_[function];
    const tensorflow::FunctionDef* definition = library_.Find(function);
    if (definition == nullptr) return body;
    for (const NodeDef& node : definition->node_def()) {
      if (IsCountedCollective(node.op())) body.tags.push_back(TagOf(node));
      for (std::string& called : FunctionsOf(node, library_)) {
        body.functions.push_back(std::move(called));
      }
    }
    return body;
  }

  const FunctionLibraryDefinition& library_;
  std::map<std::string, Body> bodies_;
};

const std::string* StringAttribute(const NodeDef& node, const char* name) {
  const auto found = node.attr().find(name);
  if (found == node.attr().end() || found->second.value_case() != tensorflow::AttrValue::kS) {
    return nullptr;
  }
  return &found->second.s();
}

}  // namespace

bool IsCountedCollective(const std::string& op) {
  static const auto* const names = [] {
    auto* made = new std::set<std::string>;
    for (Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast,
          Collective::kReduce, Collective::kReduceScatter, Collective::kAllToAllV,
          Collective::kAllToAllVC}) {
      made->insert(CollectiveName(collective));
    }
    for (const char* fused : {"_HcomFusedAllReduce", "_HcomFusedAllGather", "_HcomFusedReduce",
                              "_HcomFusedReduceScatter", "_HcomFusedAllToAllVC"}) {
      made->insert(fused);
    }
    return made;
  }();
  return names->count(op) > 0;
}

CountedTag TagOf(const NodeDef& node) {
  CountedTag counted;
  const std::string* group = StringAttribute(node, "group");
  if (group != nullptr) counted.group = *group;
  const std::string* tag = StringAttribute(node, kTagAttribute);
  counted.tag =
      tag != nullptr && !tag->empty() ? *tag : StripLoweringCounters(std::string(node.name()));
  return counted;
}

CollectiveNodes FindCollectives(const tensorflow::Graph& graph,
                                const FunctionLibraryDefinition& library) {
  CollectiveNodes found;
  CalledTags called(library);
  for (tensorflow::Node* node : graph.op_nodes()) {
    if (IsCountedCollective(node->type_string())) {
      found.collectives.push_back(node);
      continue;
    }
    std::vector<CountedTag> tags = called.Of(node->def());
    if (!tags.empty()) found.callers.push_back({node, std::move(tags)});
  }
  return found;
}

}  // namespace npu_bridge
