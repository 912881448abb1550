#include "csrc/tf/passes/iteration_loop.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "csrc/tf/attributes.h"
#include "csrc/tf/passes/run_contexts.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/algorithm.h"

namespace npu_bridge {
namespace {

using TfDataType = tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;

// Equal on all ranks: it is part of what pairs collectives inside.
constexpr char kFrame[] = "npu_bridge/iterations";

// What a step is fed by and fetched through stays outside.
bool IsBoundary(const Node& node) {
  static const auto* const types = new std::set<std::string>{
      "_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "_Recv", "_Send", "_HostRecv", "_HostSend"};
  return types->count(node.type_string()) > 0;
}

// Where a tensor comes from.
using TensorSource = std::pair<Node*, int>;

// Builds the loop. The nodes of a loop of TensorFlow's:
//
//   0 -> Enter -> Merge -> Less than the count -> LoopCond
//                 Merge -> Switch -false-> Exit
//                          Switch -true-> Identity (the pivot) -> Add 1 -> NextIteration -> Merge
//
// and the same without Less and Add for each tensor that is fetched.
class Loop {
 public:
  Loop(Node* iterations, Graph* graph)
      : iterations_(iterations),
        device_(iterations->assigned_device_name()),
        name_(iterations->name()),
        graph_(graph) {}

  TfStatus Build() {
    TF_RETURN_IF_ERROR(FindInside());
    TF_RETURN_IF_ERROR(CheckFetched());
    // The ends of an iteration are those of the graph as it is, so first of all.
    const std::vector<Node*> last = ends_;
    TF_RETURN_IF_ERROR(MakeCounter());
    for (Node* node : last) graph_->AddControlEdge(node, increment_);
    for (Node* node : inside_in_order_) TF_RETURN_IF_ERROR(LeadIn(node));
    for (Node* node : inside_in_order_) TF_RETURN_IF_ERROR(LeadOut(node));
    tensorflow::FixupSourceAndSinkEdges(graph_);
    return TfOk();
  }

 private:
  TfStatus FindInside() {
    const Edge* count = nullptr;
    TF_RETURN_IF_ERROR(iterations_->input_edge(0, &count));
    count_ = {count->src(), count->src_output()};
    // The count is read once a step, before the loop.
    std::set<Node*> before;
    std::vector<Node*> unseen{count_.first};
    while (!unseen.empty()) {
      Node* const node = unseen.back();
      unseen.pop_back();
      if (!node->IsOp() || !before.insert(node).second) continue;
      for (Node* input : node->in_nodes()) unseen.push_back(input);
    }
    for (Node* node : graph_->op_nodes()) {
      if (IsBoundary(*node) || before.count(node) > 0) continue;
      inside_.insert(node);
      inside_in_order_.push_back(node);
    }
    return FindEnds();
  }

  // What an iteration must have run before the next begins. Nodes in branches and inner loops are
  // no ends: they need not run, and something after the branch or loop depends on them.
  TfStatus FindEnds() {
    RunContexts contexts;
    TF_RETURN_IF_ERROR(RunContexts::Of(*graph_, &contexts));
    for (Node* node : inside_in_order_) {
      if (contexts.ContextOf(*node) != contexts.ContextOf(*iterations_)) continue;
      bool is_end = true;
      for (const Node* reader : node->out_nodes()) {
        if (inside_.count(const_cast<Node*>(reader)) > 0) is_end = false;
      }
      if (is_end) ends_.push_back(node);
    }
    return TfOk();
  }

  TfStatus CheckFetched() const {
    for (const Node* node : inside_in_order_) {
      for (const Edge* edge : node->out_edges()) {
        if (edge->IsControlEdge() || inside_.count(edge->dst()) > 0) continue;
        const TfDataType type = tensorflow::BaseType(node->output_type(edge->src_output()));
        if (type != tensorflow::DT_RESOURCE && type != tensorflow::DT_VARIANT) continue;
        return MakeTfStatus(
            StatusCode::kInvalidArgument,
            "'" + name_ + "': '" + node->name() + "' of type " + tensorflow::DataTypeString(type) +
                " is fetched in a step of several iterations, which can be done with tensors of "
                "values only. Fetch it in a step of its own.");
      }
    }
    return TfOk();
  }

  TfStatus MakeCounter() {
    Node *zero = nullptr, *one = nullptr, *start = nullptr, *limit = nullptr;
    TF_RETURN_IF_ERROR(Scalar("zero", 0, &zero));
    TF_RETURN_IF_ERROR(Scalar("one", 1, &one));
    // An iterations variable that was never loaded holds 0.
    Node *least = nullptr, *count = nullptr;
    TF_RETURN_IF_ERROR(Scalar("least", 1, &least));
    TF_RETURN_IF_ERROR(Add("Maximum", "count", tensorflow::DT_INT32, &count));
    graph_->AddEdge(count_.first, count_.second, count, 0);
    graph_->AddEdge(least, 0, count, 1);
    TF_RETURN_IF_ERROR(Enter({zero, 0}, false, &start));
    TF_RETURN_IF_ERROR(Enter({count, 0}, true, &limit));

    Node *merge = nullptr, *less = nullptr, *decided = nullptr;
    TF_RETURN_IF_ERROR(Merge(start, tensorflow::DT_INT32, &merge));
    TF_RETURN_IF_ERROR(Add("Less", "less", tensorflow::DT_INT32, &less));
    graph_->AddEdge(merge, 0, less, 0);
    graph_->AddEdge(limit, 0, less, 1);
    NodeDef definition = Definition("LoopCond", "condition");
    TF_RETURN_IF_ERROR(Add(definition, &decided));
    graph_->AddEdge(less, 0, decided, 0);
    condition_ = decided;

    Node* branches = nullptr;
    TF_RETURN_IF_ERROR(Switch(merge, tensorflow::DT_INT32, &branches));
    TF_RETURN_IF_ERROR(Add("Identity", "iteration", tensorflow::DT_INT32, &pivot_));
    graph_->AddEdge(branches, 1, pivot_, 0);
    graph_->AddControlEdge(pivot_, one);
    TF_RETURN_IF_ERROR(Add("Add", "increment", tensorflow::DT_INT32, &increment_));
    graph_->AddEdge(pivot_, 0, increment_, 0);
    graph_->AddEdge(one, 0, increment_, 1);
    TF_RETURN_IF_ERROR(Next({increment_, 0}, merge));
    TF_RETURN_IF_ERROR(Add("Exit", "end", tensorflow::DT_INT32, &end_));
    graph_->AddEdge(branches, 0, end_, 0);
    return TfOk();
  }

  // Lets what comes from outside in through an Enter.
  TfStatus LeadIn(Node* node) {
    std::vector<const Edge*> from_outside;
    bool has_input_inside = false;
    for (const Edge* edge : node->in_edges()) {
      if (inside_.count(edge->src()) > 0) {
        has_input_inside = true;
      } else {
        from_outside.push_back(edge);
      }
    }
    for (const Edge* edge : from_outside) {
      const TensorSource source{edge->src(), edge->src_output()};
      const int input = edge->dst_input();
      const bool is_control = edge->IsControlEdge();
      graph_->RemoveEdge(edge);
      // What a node waits for outside is there before the loop begins. That the source of the graph
      // comes before all holds anyway, and an edge from it would keep the node out of the loop.
      if (is_control) {
        if (source.first->IsOp()) graph_->AddControlEdge(source.first, first_enter_);
        continue;
      }
      Node*& entry = entries_[source];
      if (entry == nullptr) TF_RETURN_IF_ERROR(Enter(source, true, &entry));
      graph_->AddEdge(entry, 0, node, input);
    }
    // Without it the node would run once more when the loop has ended, or not at all.
    if (!has_input_inside) graph_->AddControlEdge(pivot_, node);
    return TfOk();
  }

  // Hands what is fetched from one iteration to the next, and out after the last.
  TfStatus LeadOut(Node* node) {
    std::vector<const Edge*> to_outside;
    for (const Edge* edge : node->out_edges()) {
      if (edge->dst()->IsOp() && IsBoundary(*edge->dst())) to_outside.push_back(edge);
    }
    for (const Edge* edge : to_outside) {
      const TensorSource source{edge->src(), edge->src_output()};
      Node* const reader = edge->dst();
      const int input = edge->dst_input();
      const bool is_control = edge->IsControlEdge();
      graph_->RemoveEdge(edge);
      if (is_control) {
        graph_->AddControlEdge(end_, reader);
        continue;
      }
      Node*& exit = exits_[source];
      if (exit == nullptr) TF_RETURN_IF_ERROR(Carry(source, &exit));
      graph_->AddEdge(exit, 0, reader, input);
    }
    return TfOk();
  }

  TfStatus Carry(const TensorSource& source, Node** exit) {
    const TfDataType type = tensorflow::BaseType(source.first->output_type(source.second));
    Node *nothing = nullptr, *start = nullptr, *merge = nullptr, *branches = nullptr;
    // Never seen: there is at least one iteration.
    TF_RETURN_IF_ERROR(
        Constant("nothing", tensorflow::Tensor(type, tensorflow::TensorShape({0})), &nothing));
    TF_RETURN_IF_ERROR(Enter({nothing, 0}, false, &start));
    TF_RETURN_IF_ERROR(Merge(start, type, &merge));
    TF_RETURN_IF_ERROR(Switch(merge, type, &branches));
    Node* value = nullptr;
    // Also makes a value of what is a reference.
    TF_RETURN_IF_ERROR(Add("Identity", "fetched", type, &value));
    graph_->AddEdge(source.first, source.second, value, 0);
    TF_RETURN_IF_ERROR(Next({value, 0}, merge));
    TF_RETURN_IF_ERROR(Add("Exit", "last", type, exit));
    graph_->AddEdge(branches, 0, *exit, 0);
    return TfOk();
  }

  NodeDef Definition(const std::string& op, const std::string& what) const {
    NodeDef definition;
    definition.set_op(op);
    definition.set_name(graph_->NewName(name_ + "/" + what));
    definition.set_device(device_);
    return definition;
  }

  TfStatus Add(const NodeDef& definition, Node** node) {
    TfStatus status;
    *node = graph_->AddNode(definition, &status);
    TF_RETURN_IF_ERROR(status);
    (*node)->set_assigned_device_name(device_);
    return TfOk();
  }

  TfStatus Add(const std::string& op, const std::string& what, TfDataType type, Node** node) {
    NodeDef definition = Definition(op, what);
    tensorflow::AddNodeAttr("T", type, &definition);
    return Add(definition, node);
  }

  TfStatus Constant(const std::string& what, const tensorflow::Tensor& value, Node** node) {
    NodeDef definition = Definition("Const", what);
    tensorflow::AddNodeAttr("dtype", value.dtype(), &definition);
    tensorflow::AddNodeAttr("value", value, &definition);
    return Add(definition, node);
  }

  TfStatus Scalar(const std::string& what, int value, Node** node) {
    tensorflow::Tensor tensor(tensorflow::DT_INT32, tensorflow::TensorShape({}));
    tensor.scalar<tensorflow::int32>()() = value;
    return Constant(what, tensor, node);
  }

  TfStatus Enter(const TensorSource& source, bool is_constant, Node** node) {
    const TfDataType type = source.first->output_type(source.second);
    NodeDef definition = Definition(tensorflow::IsRefType(type) ? "RefEnter" : "Enter", "enter");
    tensorflow::AddNodeAttr("T", tensorflow::BaseType(type), &definition);
    tensorflow::AddNodeAttr("frame_name", kFrame, &definition);
    tensorflow::AddNodeAttr("is_constant", is_constant, &definition);
    tensorflow::AddNodeAttr("parallel_iterations", 1, &definition);
    TF_RETURN_IF_ERROR(Add(definition, node));
    graph_->AddEdge(source.first, source.second, *node, 0);
    if (first_enter_ == nullptr) first_enter_ = *node;
    return TfOk();
  }

  // Its second input comes with Next.
  TfStatus Merge(Node* start, TfDataType type, Node** node) {
    NodeDef definition = Definition("Merge", "merge");
    tensorflow::AddNodeAttr("T", type, &definition);
    tensorflow::AddNodeAttr("N", 2, &definition);
    TF_RETURN_IF_ERROR(Add(definition, node));
    graph_->AddEdge(start, 0, *node, 0);
    return TfOk();
  }

  TfStatus Switch(Node* merge, TfDataType type, Node** node) {
    TF_RETURN_IF_ERROR(Add("Switch", "switch", type, node));
    graph_->AddEdge(merge, 0, *node, 0);
    graph_->AddEdge(condition_, 0, *node, 1);
    return TfOk();
  }

  TfStatus Next(const TensorSource& source, Node* merge) {
    Node* next = nullptr;
    TF_RETURN_IF_ERROR(
        Add("NextIteration", "next", source.first->output_type(source.second), &next));
    graph_->AddEdge(source.first, source.second, next, 0);
    graph_->AddEdge(next, 0, merge, 1);
    return TfOk();
  }

  Node* const iterations_;
  const std::string device_;
  const std::string name_;
  Graph* const graph_;

  TensorSource count_{nullptr, 0};
  std::set<Node*> inside_;
  std::vector<Node*> inside_in_order_;
  std::vector<Node*> ends_;

  Node* condition_ = nullptr;
  Node* pivot_ = nullptr;
  Node* increment_ = nullptr;
  Node* end_ = nullptr;
  Node* first_enter_ = nullptr;  // of the counter: the loop begins with it
  std::map<TensorSource, Node*> entries_;
  std::map<TensorSource, Node*> exits_;
};

class IterationLoopPass : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return TfOk();
    return LoopOverIterations(options.graph->get());
  }
};

}  // namespace

TfStatus LoopOverIterations(Graph* graph) {
  std::vector<Node*> asked;
  for (Node* node : graph->op_nodes()) {
    if (node->type_string() == kIterationsOp) asked.push_back(node);
  }
  if (asked.empty()) return TfOk();
  for (Node* node : asked) {
    const Edge *first = nullptr, *own = nullptr;
    TF_RETURN_IF_ERROR(asked[0]->input_edge(0, &first));
    TF_RETURN_IF_ERROR(node->input_edge(0, &own));
    if (own->src() != first->src() || own->src_output() != first->src_output()) {
      return MakeTfStatus(StatusCode::kInvalidArgument,
                          "'" + asked[0]->name() + "' and '" + node->name() +
                              "' ask for iterations in one step, each by a count of its own. "
                              "Fetch them in steps of their own.");
    }
    node->ClearAttr(kIsLoopAttribute);
    node->AddAttr(kIsLoopAttribute, true);
  }
  return Loop(asked[0], graph).Build();
}

// After pruning, so that only what the step runs is in the loop, and before the passes that merge
// collectives and mark steps, which must see the loop.
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 25,
                      IterationLoopPass);

}  // namespace npu_bridge
