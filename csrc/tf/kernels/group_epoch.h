// What step counts of a group are about.
#ifndef NPU_BRIDGE_CSRC_TF_KERNELS_GROUP_EPOCH_H_
#define NPU_BRIDGE_CSRC_TF_KERNELS_GROUP_EPOCH_H_

#include <cstdint>
#include <string>

namespace npu_bridge {

// Changes when the world is left and joined anew, and when the name stands for other members: ranks
// that meet then have no common count to go on from.
std::uint64_t GroupEpoch(const std::string& group);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_KERNELS_GROUP_EPOCH_H_
