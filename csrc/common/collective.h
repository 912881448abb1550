// The kinds of collectives and reductions, shared by every layer.
#ifndef NPU_BRIDGE_CSRC_COMMON_COLLECTIVE_H_
#define NPU_BRIDGE_CSRC_COMMON_COLLECTIVE_H_

#include <cstdint>

namespace npu_bridge {

enum class Collective : std::int32_t {
  kAllReduce = 0,
  kAllGather = 1,
  kBroadcast = 2,
  kReduce = 3,
  kReduceScatter = 4,
  kAllToAllV = 5,
  // Counts come as one matrix that all ranks share; transports see it as kAllToAllV.
  kAllToAllVC = 6,
  kSend = 7,
  kReceive = 8,
};

// The numbers are those of HcclReduceOp.
enum class Reduction : std::int32_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kNone = -1,
};

// The registered op's name ("HcomAllReduce").
const char* CollectiveName(Collective collective);

// The attribute's value ("sum"); "none" for kNone.
const char* ReductionName(Reduction reduction);

inline bool IsPointToPoint(Collective collective) {
  return collective == Collective::kSend || collective == Collective::kReceive;
}

inline bool IsReducing(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_COLLECTIVE_H_
