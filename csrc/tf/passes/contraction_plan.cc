#include "csrc/tf/passes/contraction_plan.h"

#include <algorithm>

namespace npu_bridge {

Contraction::Contraction(std::size_t nodes) : successors_(nodes), merged_(nodes), members_(nodes) {
  for (std::size_t node = 0; node < nodes; ++node) {
    merged_[node] = node;
    members_[node] = {node};
  }
}

void Contraction::AddEdge(std::size_t from, std::size_t to) { successors_[from].push_back(to); }

std::vector<std::size_t> Contraction::Levels(const std::vector<std::size_t>& nodes) const {
  std::vector<bool> counts(successors_.size());
  for (const std::size_t node : nodes) counts[merged_[node]] = true;
  std::vector<std::size_t> before(successors_.size());
  for (const std::size_t node : Order()) {
    const std::size_t here = before[node] + (counts[node] ? 1 : 0);
    for (const std::size_t member : members_[node]) {
      for (const std::size_t next : successors_[member]) {
        std::size_t& there = before[merged_[next]];
        there = std::max(there, here);
      }
    }
  }
  std::vector<std::size_t> levels;
  levels.reserve(nodes.size());
  for (const std::size_t node : nodes) levels.push_back(before[merged_[node]]);
  return levels;
}

void Contraction::Merge(const std::vector<std::size_t>& nodes) {
  const std::size_t one = merged_[nodes[0]];
  for (const std::size_t node : nodes) {
    const std::size_t other = merged_[node];
    if (other == one) continue;
    for (const std::size_t member : members_[other]) merged_[member] = one;
    members_[one].insert(members_[one].end(), members_[other].begin(), members_[other].end());
    members_[other].clear();
  }
}

bool Contraction::Reaches(std::size_t from, std::size_t to) const {
  const std::size_t target = merged_[to];
  std::vector<bool> seen(successors_.size());
  std::vector<std::size_t> waiting = {merged_[from]};
  seen[merged_[from]] = true;
  while (!waiting.empty()) {
    const std::size_t node = waiting.back();
    waiting.pop_back();
    if (node == target) return true;
    for (const std::size_t member : members_[node]) {
      for (const std::size_t next : successors_[member]) {
        if (seen[merged_[next]]) continue;
        seen[merged_[next]] = true;
        waiting.push_back(merged_[next]);
      }
    }
  }
  return false;
}

bool Contraction::IsAcyclic() const {
  std::size_t standing = 0;
  for (const auto& members : members_) standing += members.empty() ? 0 : 1;
  return Order().size() == standing;
}

std::vector<std::size_t> Contraction::Order() const {
  std::vector<std::size_t> awaited(successors_.size());
  for (const auto& next : successors_) {
    for (const std::size_t node : next) ++awaited[merged_[node]];
  }
  std::vector<std::size_t> order;
  for (std::size_t node = 0; node < merged_.size(); ++node) {
    if (merged_[node] == node && awaited[node] == 0) order.push_back(node);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    // A copy: push_back moves the vector.
    const std::size_t node = order[i];
    for (const std::size_t member : members_[node]) {
      for (const std::size_t next : successors_[member]) {
        if (--awaited[merged_[next]] == 0) order.push_back(merged_[next]);
      }
    }
  }
  return order;
}

}  // namespace npu_bridge
