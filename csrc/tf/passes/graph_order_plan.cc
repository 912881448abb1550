#include "csrc/tf/passes/graph_order_plan.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "csrc/common/tag.h"

namespace npu_bridge {

Status OrderByName(const std::vector<std::string>& names, const Successors& successors,
                   std::vector<std::size_t>* order) {
  // Names are compared once: a comparison costs far more than that of two places.
  std::vector<std::size_t> by_name(names.size());
  for (std::size_t i = 0; i < by_name.size(); ++i) by_name[i] = i;
  std::sort(by_name.begin(), by_name.end(),
            [&names](std::size_t a, std::size_t b) { return NaturalLess(names[a], names[b]); });
  std::vector<std::size_t> place(names.size());
  for (std::size_t i = 0; i < by_name.size(); ++i) place[by_name[i]] = i;

  std::vector<std::size_t> awaited(names.size());
  for (const auto& next : successors) {
    for (const std::size_t node : next) ++awaited[node];
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<std::size_t>> ready;
  for (std::size_t node = 0; node < names.size(); ++node) {
    if (awaited[node] == 0) ready.push(place[node]);
  }
  order->clear();
  order->reserve(names.size());
  while (!ready.empty()) {
    const std::size_t node = by_name[ready.top()];
    ready.pop();
    order->push_back(node);
    for (const std::size_t next : successors[node]) {
      if (--awaited[next] == 0) ready.push(place[next]);
    }
  }
  if (order->size() < names.size()) {
    return Internal("the graph has a cycle among " + std::to_string(names.size() - order->size()) +
                    " of its nodes.");
  }
  return Status();
}

}  // namespace npu_bridge
