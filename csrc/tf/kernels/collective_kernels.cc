// The kernels of the collective ops, a line each.
#include "csrc/tf/kernels/collective_kernel.h"

namespace npu_bridge {

#define NPU_BRIDGE_REGISTER_COLLECTIVE(op, collective, builder)    \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), \
                          CollectiveKernelOf<Collective::collective, builder>)

NPU_BRIDGE_REGISTER_COLLECTIVE("HcomAllReduce", kAllReduce, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomAllGather", kAllGather, BuildAllGather);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomBroadcast", kBroadcast, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomReduce", kReduce, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomReduceScatter", kReduceScatter, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomSend", kSend, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomReceive", kReceive, BuildReceive);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomAllToAllV", kAllToAllV, BuildAllToAllV);
NPU_BRIDGE_REGISTER_COLLECTIVE("HcomAllToAllVC", kAllToAllVC, BuildAllToAllVC);

// What the fusion pass makes of several; a merged broadcast is an HcomBroadcast.
NPU_BRIDGE_REGISTER_COLLECTIVE("_HcomFusedAllReduce", kAllReduce, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("_HcomFusedAllGather", kAllGather, BuildAllGather);
NPU_BRIDGE_REGISTER_COLLECTIVE("_HcomFusedReduce", kReduce, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("_HcomFusedReduceScatter", kReduceScatter, BuildFromInputs);
NPU_BRIDGE_REGISTER_COLLECTIVE("_HcomFusedAllToAllVC", kAllToAllVC, BuildAllToAllVC);

#undef NPU_BRIDGE_REGISTER_COLLECTIVE

}  // namespace npu_bridge
