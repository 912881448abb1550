#include "csrc/tf/passes/fusion_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "csrc/tf/passes/contraction_plan.h"
#include "csrc/tf/passes/fusion_rules_plan.h"
#include "csrc/tf/passes/graph_order_plan.h"
#include "csrc/tf/passes/split_strategy_plan.h"

namespace npu_bridge {
namespace {

// Ops of one set are merged as far as sizes and dependences allow.
struct SetKey {
  std::string key;
  std::size_t part = 0;  // of a split strategy
  std::int64_t context = 0;
  std::string device;

  bool operator<(const SetKey& other) const {
    return std::tie(key, part, context, device) <
           std::tie(other.key, other.part, other.context, other.device);
  }
};

class Planner {
 public:
  Planner(const FusionGraph& graph, const FusionSettings& settings, FusionPlan* plan)
      : graph_(graph),
        settings_(settings),
        plan_(plan),
        is_collective_(graph.names.size()),
        position_(graph.names.size()),
        contraction_(graph.names.size()) {}

  Status Run() {
    *plan_ = FusionPlan();
    plan_->reasons.resize(graph_.collectives.size());
    Status status = OrderGraph();
    if (status.ok()) status = CutGradients();
    if (!status.ok()) return status;
    AddDependences();
    for (const std::vector<std::size_t>& set : Sets()) MergeSet(set);
    std::sort(plan_->segments.begin(), plan_->segments.end(),
              [this](const FusionSegment& a, const FusionSegment& b) {
                return PositionOf(a.members[0]) < PositionOf(b.members[0]);
              });
    KeepControlEdges();
    return Status();
  }

 private:
  std::size_t PositionOf(std::size_t collective) const {
    return position_[graph_.collectives[collective].node];
  }

  Status OrderGraph() {
    for (const FusionCollective& one : graph_.collectives) is_collective_[one.node] = true;
    Successors successors(graph_.names.size());
    for (const FusionGraph::Edge& edge : graph_.edges) successors[edge.from].push_back(edge.to);
    std::vector<std::size_t> order;
    const Status status = OrderByName(graph_.names, successors, &order);
    if (!status.ok()) return status;
    for (std::size_t i = 0; i < order.size(); ++i) position_[order[i]] = i;
    in_order_.resize(graph_.collectives.size());
    for (std::size_t i = 0; i < in_order_.size(); ++i) in_order_[i] = i;
    std::sort(in_order_.begin(), in_order_.end(),
              [this](std::size_t a, std::size_t b) { return PositionOf(a) < PositionOf(b); });
    return Status();
  }

  // Gives the gradients of each group, in graph order, their parts.
  Status CutGradients() {
    parts_.assign(graph_.collectives.size(), 0);
    std::map<std::string, std::vector<std::size_t>> gradients;
    for (const std::size_t i : in_order_) {
      const FusionCollective& one = graph_.collectives[i];
      const bool is_gradient = one.kind == Collective::kAllReduce && one.fusion == 1;
      if (is_gradient) gradients[one.group].push_back(i);
    }
    for (const auto& group : gradients) {
      std::vector<std::int64_t> bytes;
      for (const std::size_t i : group.second) bytes.push_back(graph_.collectives[i].bytes);
      const auto found = settings_.split_strategies.find(group.first);
      std::vector<std::size_t> parts;
      const Status status = SplitGradients(
          group.first, found == settings_.split_strategies.end() ? SplitStrategy() : found->second,
          bytes, &parts);
      if (!status.ok()) return status;
      for (std::size_t i = 0; i < parts.size(); ++i) parts_[group.second[i]] = parts[i];
    }
    return Status();
  }

  bool IsStraight(const FusionGraph::Edge& edge) const {
    return edge.is_control && is_collective_[edge.from] && is_collective_[edge.to];
  }

  void AddDependences() {
    for (const FusionGraph::Edge& edge : graph_.edges) {
      if (!IsStraight(edge)) contraction_.AddEdge(edge.from, edge.to);
    }
  }

  // In graph order of their first members, members in graph order. Ops that join no set get their
  // reason.
  std::vector<std::vector<std::size_t>> Sets() {
    std::map<SetKey, std::size_t> places;
    std::map<std::string, std::size_t> with_key;
    std::vector<std::vector<std::size_t>> sets;
    for (const std::size_t i : in_order_) {
      const FusionCollective& one = graph_.collectives[i];
      std::string& reason = plan_->reasons[i];
      reason = WhyNeverFused(one);
      if (reason.empty() && one.bytes > settings_.segment_bytes) {
        reason = "its " + std::to_string(one.bytes) + " bytes are more than FUSION_TENSOR_SIZE, " +
                 std::to_string(settings_.segment_bytes);
      }
      if (!reason.empty()) continue;
      const SetKey key = {FusionKey(one), parts_[i], one.context, one.device};
      ++with_key[key.key];
      const auto inserted = places.insert({key, sets.size()});
      if (inserted.second) sets.emplace_back();
      sets[inserted.first->second].push_back(i);
    }
    for (const std::vector<std::size_t>& set : sets) {
      if (set.size() > 1) continue;
      const std::string key = FusionKey(graph_.collectives[set[0]]);
      plan_->reasons[set[0]] =
          with_key[key] == 1
              ? "no other op of the graph has its key: " + key
              : "no other op of its key (" + key +
                    ") is in the same loop or branch, on the same device and in the same part of "
                    "a split strategy";
    }
    return sets;
  }

  void MergeSet(const std::vector<std::size_t>& set) {
    if (set.size() < 2) return;
    std::vector<std::size_t> nodes;
    for (const std::size_t i : set) nodes.push_back(graph_.collectives[i].node);
    // Ops with equally many of the set before them on the longest path do not depend on each other.
    const std::vector<std::size_t> levels = contraction_.Levels(nodes);
    std::map<std::size_t, std::vector<std::size_t>> by_level;
    for (std::size_t i = 0; i < set.size(); ++i) by_level[levels[i]].push_back(set[i]);
    for (const auto& level : by_level) {
      CutByBytes(level.second);
    }
  }

  void CutByBytes(const std::vector<std::size_t>& members) {
    std::vector<FusionSegment> segments;
    for (const std::size_t i : members) {
      const std::int64_t bytes = graph_.collectives[i].bytes;
      if (segments.empty() || bytes > settings_.segment_bytes - segments.back().bytes) {
        segments.emplace_back();
        segments.back().key = FusionKey(graph_.collectives[i]);
      }
      segments.back().members.push_back(i);
      segments.back().bytes += bytes;
    }
    for (FusionSegment& segment : segments) {
      if (segment.members.size() == 1) {
        plan_->reasons[segment.members[0]] =
            members.size() > 1
                ? "it fits into no segment of at most " + std::to_string(settings_.segment_bytes) +
                      " bytes (FUSION_TENSOR_SIZE) with the others of its key"
                : "the others of its key depend on it or it on them";
        continue;
      }
      std::vector<std::size_t> nodes;
      for (const std::size_t i : segment.members) nodes.push_back(graph_.collectives[i].node);
      contraction_.Merge(nodes);
      plan_->segments.push_back(std::move(segment));
    }
  }

  void KeepControlEdges() {
    std::vector<std::size_t> straight;
    for (std::size_t i = 0; i < graph_.edges.size(); ++i) {
      if (!IsStraight(graph_.edges[i])) continue;
      if (contraction_.AreMerged(graph_.edges[i].from, graph_.edges[i].to)) {
        plan_->dropped_edges.push_back(i);
      } else {
        straight.push_back(i);
      }
    }
    if (straight.empty()) return;
    Contraction whole = contraction_;
    for (const std::size_t i : straight) {
      whole.AddEdge(graph_.edges[i].from, graph_.edges[i].to);
    }
    if (whole.IsAcyclic()) return;
    // One after the other, in an order that is the same on all ranks.
    std::sort(straight.begin(), straight.end(), [this](std::size_t a, std::size_t b) {
      const FusionGraph::Edge& first = graph_.edges[a];
      const FusionGraph::Edge& second = graph_.edges[b];
      return std::make_pair(position_[first.from], position_[first.to]) <
             std::make_pair(position_[second.from], position_[second.to]);
    });
    for (const std::size_t i : straight) {
      const FusionGraph::Edge& edge = graph_.edges[i];
      if (contraction_.Reaches(edge.to, edge.from)) {
        plan_->dropped_edges.push_back(i);
      } else {
        contraction_.AddEdge(edge.from, edge.to);
      }
    }
    std::sort(plan_->dropped_edges.begin(), plan_->dropped_edges.end());
  }

  const FusionGraph& graph_;
  const FusionSettings& settings_;
  FusionPlan* const plan_;
  std::vector<bool> is_collective_;    // by node
  std::vector<std::size_t> position_;  // of each node in graph order
  std::vector<std::size_t> in_order_;  // collectives
  std::vector<std::size_t> parts_;     // of each collective
  Contraction contraction_;            // edges: dependences; merged: segments
};

}  // namespace

Status PlanFusion(const FusionGraph& graph, const FusionSettings& settings, FusionPlan* plan) {
  return Planner(graph, settings, plan).Run();
}

}  // namespace npu_bridge
