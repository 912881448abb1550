#include "csrc/tf/passes/run_contexts.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "csrc/tf/passes/loop_frames.h"
#include "tensorflow/core/graph/algorithm.h"

namespace npu_bridge {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

// One side of a condition: the tensor that decides, and whether it must be true. A switch of many
// branches (Case is lowered to it) counts its outputs instead.
struct Side {
  int node;
  int output;
  int branch;

  bool operator<(const Side& other) const {
    return std::tie(node, output, branch) < std::tie(other.node, other.output, other.branch);
  }
  bool operator==(const Side& other) const {
    return node == other.node && output == other.output && branch == other.branch;
  }
};
using Sides = std::set<Side>;

bool IsSwitchOfLoop(const Node& node) {
  const Edge* predicate = nullptr;
  return node.input_edge(1, &predicate).ok() && predicate->src()->IsLoopCond();
}

Sides Intersection(const Sides& a, const Sides& b) {
  Sides both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
  return both;
}

// What must hold for a node to run, apart from the loops that it is in.
class SidesOfNodes {
 public:
  explicit SidesOfNodes(const Graph& graph)
      : sides_(static_cast<std::size_t>(graph.num_node_ids())) {
    std::vector<Node*> order;
    // Edges that close loops are not followed: what a loop starts with decides.
    tensorflow::GetReversePostOrder(
        graph, &order, {}, [](const Edge& edge) { return !edge.src()->IsNextIteration(); });
    for (const Node* node : order) sides_[static_cast<std::size_t>(node->id())] = Find(*node);
  }

  const Sides& Of(const Node& node) const { return sides_[static_cast<std::size_t>(node.id())]; }

 private:
  Sides Along(const Edge& edge) const {
    Sides sides = Of(*edge.src());
    if (edge.IsControlEdge() || !edge.src()->IsSwitch() || IsSwitchOfLoop(*edge.src())) {
      return sides;
    }
    const Edge* predicate = nullptr;
    if (edge.src()->input_edge(1, &predicate).ok()) {
      sides.insert({predicate->src()->id(), predicate->src_output(), edge.src_output()});
    }
    return sides;
  }

  Sides Find(const Node& node) const {
    Sides found;
    bool is_first = true;
    for (const Edge* edge : node.in_edges()) {
      if (edge->src()->IsNextIteration() || edge->src()->IsSource()) continue;
      Sides along = Along(*edge);
      // A merge runs when any of its inputs is there, all else when all are.
      if (node.IsMerge() && !edge->IsControlEdge()) {
        found = is_first ? std::move(along) : Intersection(found, along);
        is_first = false;
      } else if (!node.IsMerge()) {
        found.insert(along.begin(), along.end());
      }
    }
    return found;
  }

  std::vector<Sides> sides_;
};

}  // namespace

TfStatus RunContexts::Of(const Graph& graph, RunContexts* contexts) {
  LoopFrames frames;
  TF_RETURN_IF_ERROR(LoopFrames::Of(graph, &frames));
  const SidesOfNodes sides(graph);
  std::map<std::pair<std::vector<std::string>, Sides>, std::int64_t> numbers;
  contexts->contexts_.assign(static_cast<std::size_t>(graph.num_node_ids()), 0);
  for (const Node* node : graph.op_nodes()) {
    const auto context = std::make_pair(frames.FramesOf(*node), sides.Of(*node));
    const auto number = static_cast<std::int64_t>(numbers.size());
    contexts->contexts_[static_cast<std::size_t>(node->id())] =
        numbers.insert({context, number}).first->second;
  }
  return TfOk();
}

}  // namespace npu_bridge
