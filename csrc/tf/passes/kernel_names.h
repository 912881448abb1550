// Names for nodes that passes make or change.
#ifndef NPU_BRIDGE_CSRC_TF_PASSES_KERNEL_NAMES_H_
#define NPU_BRIDGE_CSRC_TF_PASSES_KERNEL_NAMES_H_

#include <string>

namespace npu_bridge {

// A session keeps the kernels of stateful ops by the names of their nodes, over all the graphs that
// it prunes for what is fetched. A node whose attributes depend on such a graph must not find the
// kernel of another: its name tells them apart.
//
// `what` is all that the attributes depend on, apart from `name`. The result is "name_" and 16
// digits.
std::string NameOfKernel(const std::string& name, const std::string& what);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_PASSES_KERNEL_NAMES_H_
