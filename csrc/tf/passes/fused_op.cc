#include "csrc/tf/passes/fused_op.h"

#include <cstddef>
#include <set>
#include <utility>

#include "csrc/tf/attributes.h"
#include "csrc/tf/passes/collective_nodes.h"
#include "csrc/tf/passes/kernel_names.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace npu_bridge {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;

constexpr char kBroadcast[] = "HcomBroadcast";

std::string FusedOpName(const std::string& op) {
  // "HcomAllReduce" gives "_HcomFusedAllReduce"; a broadcast takes a list already.
  return op == kBroadcast ? op : "_HcomFused" + op.substr(std::string("Hcom").size());
}

// Where a tensor comes from or goes to.
struct Port {
  Node* node;
  int index;
};

struct Surroundings {
  // Grouped by the op's own arguments, in each of which members follow one another: that is the
  // order of a list-typed op's inputs.
  std::vector<Port> inputs;
  std::vector<std::vector<Port>> outputs;  // readers of each
  std::set<Node*> before;
  std::set<Node*> after;
};

// Arguments of a member: its tensors, except for ops with a second list.
std::vector<std::vector<Port>> Arguments(const Node& member) {
  std::vector<Port> inputs(static_cast<std::size_t>(member.num_inputs()));
  for (const Edge* edge : member.in_edges()) {
    if (edge->IsControlEdge()) continue;
    inputs[static_cast<std::size_t>(edge->dst_input())] = {edge->src(), edge->src_output()};
  }
  if (member.type_string() == kBroadcast) return {inputs};
  std::vector<std::vector<Port>> arguments;
  for (const Port& input : inputs) arguments.push_back({input});
  return arguments;
}

Surroundings LookAround(const std::vector<Node*>& members) {
  const std::set<Node*> inside(members.begin(), members.end());
  Surroundings around;
  std::vector<std::vector<Port>> arguments;
  for (Node* member : members) {
    const std::vector<std::vector<Port>> own = Arguments(*member);
    arguments.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      arguments[i].insert(arguments[i].end(), own[i].begin(), own[i].end());
    }
    const std::size_t first_output = around.outputs.size();
    around.outputs.resize(first_output + static_cast<std::size_t>(member->num_outputs()));
    for (const Edge* edge : member->in_edges()) {
      if (edge->IsControlEdge() && inside.count(edge->src()) == 0)
        around.before.insert(edge->src());
    }
    for (const Edge* edge : member->out_edges()) {
      if (!edge->IsControlEdge()) {
        around.outputs[first_output + static_cast<std::size_t>(edge->src_output())].push_back(
            {edge->dst(), edge->dst_input()});
      } else if (inside.count(edge->dst()) == 0) {
        around.after.insert(edge->dst());
      }
    }
  }
  for (const std::vector<Port>& argument : arguments) {
    around.inputs.insert(around.inputs.end(), argument.begin(), argument.end());
  }
  return around;
}

// Gives the op the names that its members compare, in the order of their tensors; those of members
// that have none are empty.
void JoinInputNames(const std::vector<Node*>& members, NodeDef* definition) {
  std::vector<std::string> all;
  bool any = false;
  for (const Node* member : members) {
    std::vector<std::string> names;
    any = tensorflow::GetNodeAttr(member->attrs(), kInputNamesAttribute, &names).ok() || any;
    names.resize(static_cast<std::size_t>(member->num_outputs()));
    all.insert(all.end(), names.begin(), names.end());
  }
  auto& attributes = *definition->mutable_attr();
  attributes.erase(kInputNamesAttribute);
  if (!any) return;
  for (const std::string& name : all) attributes[kInputNamesAttribute].mutable_list()->add_s(name);
}

// Ranks compare what is None in the lists of any member.
void JoinAbsentEntries(const std::vector<Node*>& members, NodeDef* definition) {
  std::set<TfInt64> all;
  for (const Node* member : members) {
    std::vector<TfInt64> entries;
    if (!tensorflow::GetNodeAttr(member->attrs(), kAbsentEntriesAttribute, &entries).ok()) continue;
    all.insert(entries.begin(), entries.end());
  }
  auto& attributes = *definition->mutable_attr();
  attributes.erase(kAbsentEntriesAttribute);
  for (const TfInt64 entry : all) {
    attributes[kAbsentEntriesAttribute].mutable_list()->add_i(entry);
  }
}

NodeDef Definition(const std::vector<Node*>& members, const Surroundings& around) {
  // As the first member: group, root and the rest are the same for all.
  NodeDef definition = members[0]->def();
  definition.clear_input();
  definition.set_op(FusedOpName(members[0]->type_string()));
  for (const Port& input : around.inputs) {
    definition.add_input(input.index == 0 ? input.node->name()
                                          : input.node->name() + ":" + std::to_string(input.index));
  }
  JoinInputNames(members, &definition);
  JoinAbsentEntries(members, &definition);
  auto& attributes = *definition.mutable_attr();
  attributes.erase(kStaticShapeAttribute);
  auto* const tags = attributes[kMembersAttribute].mutable_list();
  auto* const names = attributes[kMemberNamesAttribute].mutable_list();
  auto* const tensors = attributes[kMemberTensorsAttribute].mutable_list();
  for (const Node* member : members) {
    tags->add_s(TagOf(member->def()).tag);
    names->add_s(member->name());
    tensors->add_i(member->num_outputs());
  }
  // Ranks whose sets differ should meet in the fused op, and be told: so the tag is that of the
  // first, without the number of members.
  attributes[kTagAttribute].set_s("fused " + TagOf(members[0]->def()).tag);
  if (members[0]->type_string() == kBroadcast) {
    auto* const types = attributes["T"].mutable_list();
    types->clear_type();
    for (const Node* member : members) {
      for (int i = 0; i < member->num_outputs(); ++i) types->add_type(member->output_type(i));
    }
  } else {
    attributes["N"].set_i(static_cast<TfInt64>(members.size()));
  }
  return definition;
}

}  // namespace

TfStatus ReplaceByFusedOp(const std::vector<Node*>& members, Graph* graph, std::string* name) {
  const Surroundings around = LookAround(members);
  NodeDef definition = Definition(members, around);
  std::string names;
  for (const Node* member : members) names += member->name() + '\x01';
  definition.set_name(graph->NewName(NameOfKernel(members[0]->name() + "/fused", names)));
  TfStatus status;
  Node* const fused = graph->AddNode(definition, &status);
  TF_RETURN_IF_ERROR(status);
  fused->set_assigned_device_name(members[0]->assigned_device_name());
  // The members' own edges go with them; readers must be free before they get a new input.
  for (Node* member : members) graph->RemoveNode(member);
  for (std::size_t i = 0; i < around.inputs.size(); ++i) {
    graph->AddEdge(around.inputs[i].node, around.inputs[i].index, fused, static_cast<int>(i));
  }
  for (std::size_t i = 0; i < around.outputs.size(); ++i) {
    for (const Port& reader : around.outputs[i]) {
      graph->AddEdge(fused, static_cast<int>(i), reader.node, reader.index);
    }
  }
  for (Node* node : around.before) graph->AddControlEdge(node, fused);
  for (Node* node : around.after) graph->AddControlEdge(fused, node);
  *name = fused->name();
  return TfOk();
}

}  // namespace npu_bridge
