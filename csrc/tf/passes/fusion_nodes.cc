#include "csrc/tf/passes/fusion_nodes.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "csrc/common/tag.h"
#include "csrc/tf/data_types.h"
#include "csrc/tf/passes/collective_nodes.h"
#include "csrc/tf/passes/run_contexts.h"
#include "csrc/tf/passes/static_bytes.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace npu_bridge {
namespace {

using tensorflow::Node;

const std::map<std::string, Collective>& CollectivesByName() {
  static const auto* const names = [] {
    auto* made = new std::map<std::string, Collective>;
    for (Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast,
          Collective::kReduce, Collective::kReduceScatter, Collective::kAllToAllV,
          Collective::kAllToAllVC, Collective::kSend, Collective::kReceive}) {
      made->insert({CollectiveName(collective), collective});
    }
    return made;
  }();
  return *names;
}

// `otherwise` where the node has no such attribute.
std::int64_t Integer(const Node& node, const char* name, std::int64_t otherwise) {
  TfInt64 value = otherwise;
  return tensorflow::GetNodeAttr(node.attrs(), name, &value).ok() ? value : otherwise;
}

std::string Text(const Node& node, const char* name) {
  std::string value;
  return tensorflow::GetNodeAttr(node.attrs(), name, &value).ok() ? value : std::string();
}

Reduction ReductionOf(const Node& node) {
  const std::string name = Text(node, "reduction");
  for (Reduction reduction :
       {Reduction::kSum, Reduction::kProd, Reduction::kMax, Reduction::kMin}) {
    if (name == ReductionName(reduction)) return reduction;
  }
  return Reduction::kNone;
}

std::vector<DataType> TypesOf(const Node& node, Collective kind) {
  // The counts of an all-to-all are no data.
  const int inputs = kind == Collective::kBroadcast ? node.num_inputs()
                     : kind == Collective::kReceive ? 0
                                                    : 1;
  std::vector<DataType> types;
  for (int i = 0; i < inputs && i < node.num_inputs(); ++i) {
    types.push_back(FromTfDataType(tensorflow::BaseType(node.input_type(i))));
  }
  return types;
}

FusionCollective Describe(const Node& node) {
  FusionCollective one;
  one.name = node.name();
  one.kind = CollectivesByName().at(node.type_string());
  one.group = Text(node, "group");
  one.reduction = ReductionOf(node);
  one.fusion = Integer(node, "fusion", 0);
  one.fusion_id = Integer(node, "fusion_id", -1);
  one.root_rank = Integer(node, "root_rank", 0);
  one.rank_size = Integer(node, "rank_size", 0);
  one.rank = Integer(node, "rank", 0);
  one.types = TypesOf(node, one.kind);
  one.device = node.assigned_device_name();
  return one;
}

// What orders a collective in its graph, on every rank alike: names that lowering has put counters
// of this rank's graph into are compared without them first.
std::string OrderName(const Node& node) {
  const bool has_tag = IsCountedCollective(node.type_string());
  const std::string name =
      has_tag ? TagOf(node.def()).tag : StripLoweringCounters(std::string(node.name()));
  return name + '\x01' + node.name();
}

}  // namespace

bool IsFusionCollective(const Node& node) {
  return CollectivesByName().count(node.type_string()) > 0;
}

TfStatus ReadFusionNodes(const tensorflow::Graph& graph, FusionNodes* nodes) {
  RunContexts contexts;
  TF_RETURN_IF_ERROR(RunContexts::Of(graph, &contexts));
  StaticBytes bytes(graph);
  std::vector<std::size_t> places(static_cast<std::size_t>(graph.num_node_ids()));
  for (Node* node : graph.op_nodes()) {
    places[static_cast<std::size_t>(node->id())] = nodes->graph.names.size();
    nodes->graph.names.emplace_back();
    if (!IsFusionCollective(*node)) continue;
    nodes->graph.names.back() = OrderName(*node);
    FusionCollective one = Describe(*node);
    one.node = nodes->graph.names.size() - 1;
    one.context = contexts.ContextOf(*node);
    if (one.fusion != 0) one.bytes = bytes.Of(*node, one.types);
    nodes->graph.collectives.push_back(std::move(one));
    nodes->collectives.push_back(node);
  }
  for (const tensorflow::Edge* edge : graph.edges()) {
    // What goes around a loop closes no cycle; the source and the sink are no ops.
    if (edge->src()->IsNextIteration() || !edge->src()->IsOp() || !edge->dst()->IsOp()) continue;
    nodes->graph.edges.push_back({places[static_cast<std::size_t>(edge->src()->id())],
                                  places[static_cast<std::size_t>(edge->dst()->id())],
                                  edge->IsControlEdge()});
    nodes->edges.push_back(edge);
  }
  return TfOk();
}

}  // namespace npu_bridge
