// The shared memory segments of one world, by name. Its leader has the only one.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_SEGMENT_STORE_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_SEGMENT_STORE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

constexpr std::size_t kLongestSegmentName = 63;

// A name of 1 to 63 bytes without a NUL, and a size that a mapping can have.
Status CheckSegment(const std::string& name, std::uint64_t bytes);

class SegmentStore {
 public:
  // Makes the segment, or makes it longer, or finds it; a new descriptor of it.
  Status Share(const std::string& name, std::uint64_t bytes, OwnedDescriptor* descriptor);

 private:
  std::mutex mutex_;
  std::map<std::string, OwnedDescriptor> segments_;
};

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_SEGMENT_STORE_H_
