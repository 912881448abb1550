#include "csrc/common/collective.h"

namespace npu_bridge {

const char* CollectiveName(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "HcomAllReduce";
    case Collective::kAllGather:
      return "HcomAllGather";
    case Collective::kBroadcast:
      return "HcomBroadcast";
    case Collective::kReduce:
      return "HcomReduce";
    case Collective::kReduceScatter:
      return "HcomReduceScatter";
    case Collective::kAllToAllV:
      return "HcomAllToAllV";
    case Collective::kAllToAllVC:
      return "HcomAllToAllVC";
    case Collective::kSend:
      return "HcomSend";
    case Collective::kReceive:
      return "HcomReceive";
  }
  return "unknown collective";
}

const char* ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kProd:
      return "prod";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
    case Reduction::kNone:
      break;
  }
  return "none";
}

}  // namespace npu_bridge
