#include "csrc/tf/passes/step_marker.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "csrc/common/tag.h"
#include "csrc/tf/attributes.h"
#include "csrc/tf/passes/collective_nodes.h"
#include "csrc/tf/passes/frame_names_plan.h"
#include "csrc/tf/passes/kernel_names.h"
#include "csrc/tf/passes/loop_frames.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_builder.h"

namespace npu_bridge {
namespace {

using tensorflow::Graph;
using tensorflow::Node;

void SetAttribute(Node* node, const char* name, const std::string& value) {
  node->ClearAttr(name);  // AddAttr does not overwrite
  node->AddAttr(name, value);
}

// The order of the calls in the program, as far as TensorFlow's numbering of names tells it.
bool CalledBefore(const Node* a, const Node* b) {
  const std::string first = StripLoweringCounters(a->name());
  const std::string second = StripLoweringCounters(b->name());
  return first != second ? NaturalLess(first, second) : NaturalLess(a->name(), b->name());
}

// A function that is called twice and inlined gives two nodes one tag. Without a number of their
// own, a rank that skips the first would pair its second with the other ranks' first. Places in
// names would not do: they move with every other function that one rank calls. With the number of
// calls, ranks that make another number of them meet the mismatch error.
void WriteTags(const std::vector<Node*>& collectives, std::set<CountedTag>* written) {
  std::map<CountedTag, std::vector<Node*>> by_tag;
  for (Node* node : collectives) by_tag[TagOf(node->def())].push_back(node);
  for (auto& entry : by_tag) {
    std::vector<Node*>& calls = entry.second;
    std::sort(calls.begin(), calls.end(), CalledBefore);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      Node* const node = calls[i];
      CountedTag counted = entry.first;
      if (calls.size() > 1) {
        const std::string place = std::to_string(i + 1) + " of " + std::to_string(calls.size());
        counted.tag += " (call " + place + ")";
        node->set_name(NameOfKernel(node->name(), place));
      }
      SetAttribute(node, kTagAttribute, counted.tag);
      written->insert(counted);
    }
  }
}

void StabilizeFrameNames(const LoopFrames& frames, const std::set<std::string>& wanted) {
  std::set<std::string> all;
  for (const auto& frame : frames.all()) all.insert(frame.first);
  for (const auto& renamed : PlanFrameNames(all, wanted)) {
    for (Node* enter : frames.EntersOf(renamed.first)) {
      SetAttribute(enter, "frame_name", renamed.second);
    }
  }
}

// Fills an attribute pair of the marker.
void SplitTags(const std::set<CountedTag>& tags, std::vector<std::string>* groups,
               std::vector<std::string>* names) {
  for (const CountedTag& counted : tags) {
    groups->push_back(counted.group);
    names->push_back(counted.tag);
  }
}

// Collectives have kernels for the CPU only, so one of them names a device that the marker can run
// on. A graph that only calls functions may hold a call on another device.
std::string DeviceOf(const Graph& graph, const CollectiveNodes& nodes) {
  if (!nodes.collectives.empty()) return nodes.collectives[0]->assigned_device_name();
  for (const Node* node : graph.op_nodes()) {
    if (node->assigned_device_name().find("CPU:") != std::string::npos) {
      return node->assigned_device_name();
    }
  }
  return nodes.callers[0].node->assigned_device_name();
}

TfStatus MakeMarker(const std::set<CountedTag>& own, const std::set<CountedTag>& called,
                    const std::string& device, Graph* graph, Node** marker) {
  std::vector<std::string> groups, tags, called_groups, called_tags;
  SplitTags(own, &groups, &tags);
  SplitTags(called, &called_groups, &called_tags);
  std::string counts;
  for (const std::vector<std::string>* list : {&groups, &tags, &called_groups, &called_tags}) {
    for (const std::string& text : *list) counts += text + '\x01';
    counts += '\x02';
  }
  const std::string name = NameOfKernel("npu_bridge/step_marker", counts);
  tensorflow::NodeDef definition;
  TF_RETURN_IF_ERROR(tensorflow::NodeDefBuilder(graph->NewName(name), kStepMarkerOp)
                         .Attr(kMarkerGroups, groups)
                         .Attr(kMarkerTags, tags)
                         .Attr(kMarkerCalledGroups, called_groups)
                         .Attr(kMarkerCalledTags, called_tags)
                         .Device(device)
                         .Finalize(&definition));
  TfStatus status;
  *marker = graph->AddNode(definition, &status);
  TF_RETURN_IF_ERROR(status);
  (*marker)->set_assigned_device_name(device);
  graph->AddControlEdge(graph->source_node(), *marker);
  return TfOk();
}

class StepMarkerPass : public tensorflow::GraphOptimizationPass {
 public:
  TfStatus Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return TfOk();
    // The kernel counts eager calls by itself.
    if (IsEagerOpGraph(options)) return TfOk();
    Graph* const graph = options.graph->get();
    return AddStepMarker(options.flib_def != nullptr ? *options.flib_def : graph->flib_def(),
                         graph);
  }
};

}  // namespace

TfStatus AddStepMarker(const tensorflow::FunctionLibraryDefinition& library, Graph* graph) {
  const CollectiveNodes nodes = FindCollectives(*graph, library);
  if (nodes.empty()) return TfOk();
  LoopFrames frames;
  TF_RETURN_IF_ERROR(LoopFrames::Of(*graph, &frames));

  std::set<CountedTag> own;
  WriteTags(nodes.collectives, &own);
  std::set<CountedTag> called;
  std::vector<Node*> followers = nodes.collectives;
  for (const CollectiveCaller& caller : nodes.callers) {
    followers.push_back(caller.node);
    for (const CountedTag& counted : caller.tags) {
      if (own.count(counted) == 0) called.insert(counted);
    }
  }

  Node* marker = nullptr;
  TF_RETURN_IF_ERROR(MakeMarker(own, called, DeviceOf(*graph, nodes), graph, &marker));
  std::set<std::string> with_collectives;
  for (Node* follower : followers) {
    const std::vector<std::string> around = frames.FramesOf(*follower);
    with_collectives.insert(around.begin(), around.end());
    if (around.empty()) {
      graph->AddControlEdge(marker, follower);
      continue;
    }
    // An edge must not lead into a frame: what enters the outermost one waits instead.
    for (Node* enter : frames.EntersOf(around.back())) graph->AddControlEdge(marker, enter);
  }
  StabilizeFrameNames(frames, with_collectives);
  return TfOk();
}

// After placement, so that the marker can have the collectives' device, and after pruning, so that
// it counts only what the step can run. The phase leaves room for passes before it, whose result
// it must see.
REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 100,
                      StepMarkerPass);

}  // namespace npu_bridge
