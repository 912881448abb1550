// A graph as the fusion planner sees it: names, edges, and what is to be known of the collectives.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_FUSION_GRAPH_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_FUSION_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"

namespace npu_bridge {

struct FusionCollective {
  std::size_t node = 0;  // place in FusionGraph::names
  std::string name;      // for people
  Collective kind = Collective::kAllReduce;
  std::string group;
  Reduction reduction = Reduction::kNone;
  std::int64_t fusion = 0;
  std::int64_t fusion_id = -1;
  std::int64_t root_rank = 0;
  std::int64_t rank_size = 0;
  std::int64_t rank = 0;
  std::vector<DataType> types;  // one; a broadcast has one for each tensor of its list
  std::int64_t bytes = -1;      // of all inputs; -1: a shape is not fully known
  std::string device;
  // Equal for ops that run whenever the others of the same number do: in one loop and branch.
  std::int64_t context = 0;
};

struct FusionGraph {
  struct Edge {
    std::size_t from = 0;
    std::size_t to = 0;
    bool is_control = false;
  };

  // One a node, smaller ones go first in graph order. Empty for all but collectives: TensorFlow's
  // rewrites name other nodes by their values (equal constants become one), which may differ
  // between ranks; what a collective depends on is the program's.
  std::vector<std::string> names;
  std::vector<Edge> edges;  // without those that close loops
  std::vector<FusionCollective> collectives;
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_FUSION_GRAPH_H_
