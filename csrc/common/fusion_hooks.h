// How the graph passes learn what steers merging, and where they say what they did. Python stands
// behind both.
#ifndef NPU_BRIDGE_CSRC_COMMON_FUSION_HOOKS_H_
#define NPU_BRIDGE_CSRC_COMMON_FUSION_HOOKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "csrc/common/fusion_settings.h"
#include "csrc/common/status.h"

namespace npu_bridge {

// What was merged in one graph, and why the rest was not.
struct FusionReport {
  struct Segment {
    std::string op;  // the name of the op that stands for the members
    std::string key;
    std::int64_t bytes = 0;
    std::vector<std::string> members;  // names of nodes, in the order of their tensors
  };
  struct Alone {
    std::string name;
    std::string op_type;
    std::string reason;
  };

  std::string graph;  // the function's name; empty for a session's graph
  std::vector<Segment> segments;
  std::vector<Alone> alone;
};

struct FusionHooks {
  // Called for each graph with collectives that ask to be merged.
  std::function<Status(FusionSettings*)> settings;
  // Called for each graph with collectives. An error ends the run of the graph.
  std::function<Status(const FusionReport&)> report;
};

// Functions that are not set do nothing: settings are the defaults then. From any thread.
void SetFusionHooks(FusionHooks hooks);

Status ReadFusionSettings(FusionSettings* settings);
Status ReportFusion(const FusionReport& report);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_FUSION_HOOKS_H_
