#include "csrc/tf/passes/static_bytes.h"

#include <cstddef>
#include <limits>

#include "csrc/tf/attributes.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/algorithm.h"

namespace npu_bridge {
namespace {

using tensorflow::Node;

// -1 when it does not fit.
std::int64_t Product(std::int64_t a, std::int64_t b) {
  if (a != 0 && b > std::numeric_limits<std::int64_t>::max() / a) return -1;
  return a * b;
}

std::int64_t Elements(const tensorflow::PartialTensorShape& shape) {
  if (!shape.IsFullyDefined()) return -1;
  std::int64_t elements = 1;
  for (int i = 0; i < shape.dims() && elements >= 0; ++i) {
    elements = Product(elements, shape.dim_size(i));
  }
  return elements;
}

}  // namespace

StaticBytes::StaticBytes(const tensorflow::Graph& graph) : graph_(graph) {}
StaticBytes::~StaticBytes() = default;

std::int64_t StaticBytes::Of(const Node& node, const std::vector<DataType>& types) {
  std::vector<tensorflow::PartialTensorShape> recorded;
  // An attribute of another type, or for another number of inputs, records nothing.
  if (!tensorflow::GetNodeAttr(node.attrs(), kStaticShapeAttribute, &recorded).ok() ||
      recorded.size() != types.size()) {
    recorded.assign(types.size(), tensorflow::PartialTensorShape());
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    std::int64_t elements = Elements(recorded[i]);
    if (elements < 0) elements = ElementsOfInput(node, static_cast<int>(i));
    if (elements < 0) return -1;
    const std::int64_t bytes = Product(elements, static_cast<std::int64_t>(DataTypeSize(types[i])));
    if (bytes < 0 || bytes > std::numeric_limits<std::int64_t>::max() - total) return -1;
    total += bytes;
  }
  return total;
}

std::int64_t StaticBytes::ElementsOfInput(const Node& node, int input) {
  const tensorflow::Edge* edge = nullptr;
  if (!node.input_edge(input, &edge).ok()) return -1;
  Infer(*edge->src());
  tensorflow::shape_inference::InferenceContext* const context = refiner_->GetContext(edge->src());
  if (context == nullptr) return -1;
  const tensorflow::shape_inference::ShapeHandle shape = context->output(edge->src_output());
  if (!context->FullyDefined(shape)) return -1;
  std::int64_t elements = 1;
  for (int i = 0; i < context->Rank(shape) && elements >= 0; ++i) {
    elements = Product(elements, context->Value(context->Dim(shape, i)));
  }
  return elements;
}

void StaticBytes::Infer(const Node& node) {
  if (refiner_ == nullptr) {
    refiner_.reset(
        new tensorflow::ShapeRefiner(graph_.versions().producer(), graph_.op_registry()));
    refiner_->set_require_shape_inference_fns(false);
    inferred_.assign(static_cast<std::size_t>(graph_.num_node_ids()), false);
  }
  if (inferred_[static_cast<std::size_t>(node.id())]) return;
  // Inputs before the ops that read them; what comes around a loop is left out.
  const std::vector<const Node*> start = {&node};
  const auto enter = [](const Node*) {};
  const auto leave = [this](const Node* one) {
    std::vector<bool>::reference done = inferred_[static_cast<std::size_t>(one->id())];
    if (done || !one->IsOp()) return;
    done = true;
    // An op whose shapes cannot be told has no context then, and its readers have none.
    static_cast<void>(refiner_->AddNode(one));
  };
  tensorflow::ReverseDFSFrom(graph_, start, enter, leave);
}

}  // namespace npu_bridge
