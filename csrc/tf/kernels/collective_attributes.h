// The attributes of a collective op, read once when its kernel is made.
#ifndef NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_ATTRIBUTES_H_
#define NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/common/collective.h"
#include "csrc/common/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_bridge {

struct CollectiveAttributes {
  std::string group;
  Reduction reduction = Reduction::kNone;
  std::int64_t fusion = 0;
  std::int64_t fusion_id = -1;
  std::int32_t root_rank = 0;
  std::int32_t peer_rank = 0;  // dest_rank or src_rank
  std::int64_t sr_tag = 0;
  std::int64_t rank_size = -1;
  std::int64_t rank = -1;
  tensorflow::PartialTensorShape shape;
  std::vector<std::string> input_names;  // of the data inputs; empty where they are not compared
  std::vector<std::int64_t> absent_entries;
};

// Reads those that the op has. The status says what no request could be made of; it is not for the
// constructor to fail with, since the other ranks would wait for this one: the kernel refuses with
// it when it runs. What is known is filled in in any case.
Status ReadCollectiveAttributes(tensorflow::OpKernelConstruction* construction,
                                Collective collective, CollectiveAttributes* attributes);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_KERNELS_COLLECTIVE_ATTRIBUTES_H_
