// NpuOptimizer, which scripts name in the configuration of their sessions. On Ascend devices it
// hands the graph to the device; here it only carries the options that scripts give it.
#include <algorithm>
#include <string>
#include <vector>

#include "csrc/common/session_options.h"
#include "csrc/tf/compat.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/protobuf/rewriter_config.pb.h"

namespace npu_bridge {
namespace {

using tensorflow::AttrValue;
using tensorflow::grappler::CustomGraphOptimizerRegistry;

constexpr char kNpuOptimizer[] = "NpuOptimizer";

const char* KindOf(const AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kB:
      return "b";
    case AttrValue::kI:
      return "i";
    case AttrValue::kF:
      return "f";
    case AttrValue::kS:
      return "s";
    case AttrValue::kList:
      return "list";
    case AttrValue::kType:
      return "type";
    case AttrValue::kShape:
      return "shape";
    case AttrValue::kTensor:
      return "tensor";
    case AttrValue::kFunc:
      return "func";
    case AttrValue::kPlaceholder:
      return "placeholder";
    case AttrValue::VALUE_NOT_SET:
      return "";
  }
  return "";
}

SessionOptionValue ValueOfKind(const char* kind) {
  SessionOptionValue value;
  value.kind = kind;
  return value;
}

SessionOptionValue ToValue(const AttrValue& attribute) {
  SessionOptionValue value = ValueOfKind(KindOf(attribute));
  // Of the fields of a oneof, those that are not set read as defaults.
  value.boolean = attribute.b();
  value.integer = attribute.i();
  value.real = attribute.f();
  value.text = std::string(attribute.s());
  return value;
}

std::vector<SessionOptionValue> ToElements(const AttrValue::ListValue& list) {
  std::vector<SessionOptionValue> elements;
  for (const auto& text : list.s()) {
    elements.push_back(ValueOfKind("s"));
    elements.back().text = std::string(text);
  }
  for (const auto integer : list.i()) {
    elements.push_back(ValueOfKind("i"));
    elements.back().integer = integer;
  }
  for (const auto real : list.f()) {
    elements.push_back(ValueOfKind("f"));
    elements.back().real = real;
  }
  for (const auto boolean : list.b()) {
    elements.push_back(ValueOfKind("b"));
    elements.back().boolean = boolean;
  }
  return elements;
}

class NpuOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  std::string name() const override { return kNpuOptimizer; }

  // TensorFlow puts a stub in place of the functions for optimizers that say no, which costs more
  // than to leave them.
  bool UsesFunctionLibrary() const override { return true; }

  // Whatever a script passes, the session runs: an error here would switch Grappler off.
  TfStatus Init(const tensorflow::RewriterConfig_CustomGraphOptimizer* config) override {
    if (config == nullptr) return TfOk();
    std::vector<SessionOption> options;
    for (const auto& entry : config->parameter_map()) {
      SessionOption option;
      option.name = std::string(entry.first);
      option.value = ToValue(entry.second);
      if (entry.second.has_list()) option.elements = ToElements(entry.second.list());
      options.push_back(option);
    }
    ReportSessionOptions(options);
    return TfOk();
  }

  // Aborted is how an optimizer says that the graph stays as it is, which saves the copy of it.
  TfStatus Optimize(tensorflow::grappler::Cluster* /*cluster*/,
                    const tensorflow::grappler::GrapplerItem& /*item*/,
                    tensorflow::GraphDef* /*optimized_graph*/) override {
    return tensorflow::errors::Aborted("NpuOptimizer changes no graph.");
  }
  using tensorflow::grappler::CustomGraphOptimizer::Optimize;

  // Part of the interface of 1.15 only, hence no `override`.
  void Feedback(tensorflow::grappler::Cluster* /*cluster*/,
                const tensorflow::grappler::GrapplerItem& /*item*/,
                const tensorflow::GraphDef& /*optimized_graph*/, double /*result*/) {}
};

// TensorFlow's macro ends the process where a library of somebody else has taken the name.
bool RegisterNpuOptimizer() {
  const auto taken = CustomGraphOptimizerRegistry::GetRegisteredOptimizers();
  if (std::find(taken.begin(), taken.end(), kNpuOptimizer) != taken.end()) return false;
  CustomGraphOptimizerRegistry::RegisterOptimizerOrDie([] { return new NpuOptimizer; },
                                                       kNpuOptimizer);
  return true;
}

const bool npu_optimizer_is_ours = RegisterNpuOptimizer();

}  // namespace
}  // namespace npu_bridge
