// What each collective does, over buffers that all lie in this process.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_LOOPBACK_EXECUTE_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_LOOPBACK_EXECUTE_H_

#include <vector>

#include "csrc/common/status.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace loopback {

// Calls allocate() for every result that is not empty.
Status AllocateResults(const npu_transport_request& request,
                       std::vector<npu_transport_result>* results);

// requests[r] is the group's rank r; writes into results[r], which hold memory already.
Status Execute(const std::vector<npu_transport_request>& requests,
               const std::vector<std::vector<npu_transport_result>>& results);

}  // namespace loopback
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_LOOPBACK_EXECUTE_H_
