// A graph in which nodes are merged one after the other, without ever making a cycle.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_CONTRACTION_PLAN_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_CONTRACTION_PLAN_H_

#include <cstddef>
#include <vector>

#include "csrc/tf/passes/graph_order_plan.h"

namespace npu_bridge {

class Contraction {
 public:
  explicit Contraction(std::size_t nodes);

  void AddEdge(std::size_t from, std::size_t to);

  // For each of `nodes`, how many others of them are before it on the path that has most of them.
  // Nodes of one level do not reach each other, so that merging some of them makes no cycle; nor
  // does it then make a path between any two of a higher level. The graph is acyclic.
  std::vector<std::size_t> Levels(const std::vector<std::size_t>& nodes) const;

  // From now on these are one node.
  void Merge(const std::vector<std::size_t>& nodes);

  bool AreMerged(std::size_t a, std::size_t b) const { return merged_[a] == merged_[b]; }
  bool Reaches(std::size_t from, std::size_t to) const;
  bool IsAcyclic() const;

 private:
  // Nodes that stand for what is merged, each before those it leads to; fewer where there is a
  // cycle.
  std::vector<std::size_t> Order() const;

  Successors successors_;            // of each node by itself
  std::vector<std::size_t> merged_;  // the node that stands for it
  Successors members_;               // of a node that stands for others, itself included
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_CONTRACTION_PLAN_H_
