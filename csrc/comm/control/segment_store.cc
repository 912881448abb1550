#include "csrc/comm/control/segment_store.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "csrc/comm/control/memory_file.h"

namespace npu_bridge {
namespace control {
namespace {

constexpr std::uint64_t kMostBytes = 1ULL << 46;
// A world has a few; more is a peer gone wrong, and each costs a descriptor.
constexpr std::size_t kMostSegments = 32;

}  // namespace

Status CheckSegment(const std::string& name, std::uint64_t bytes) {
  if (name.empty() || name.size() > kLongestSegmentName || name.find('\0') != std::string::npos) {
    return InvalidArgument("a shared memory segment has a name of 1 to " +
                           std::to_string(kLongestSegmentName) + " bytes, not of " +
                           std::to_string(name.size()));
  }
  if (bytes == 0 || bytes > kMostBytes) {
    return InvalidArgument("shared memory segment '" + name + "' of " + std::to_string(bytes) +
                           " bytes was asked for; 1 to " + std::to_string(kMostBytes) +
                           " are possible");
  }
  return Status::Ok();
}

Status SegmentStore::Share(const std::string& name, std::uint64_t bytes,
                           OwnedDescriptor* descriptor) {
  Status status = CheckSegment(name, bytes);
  if (!status.ok()) return status;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto segment = segments_.find(name);
  if (segment == segments_.end()) {
    if (segments_.size() >= kMostSegments) {
      return ResourceExhausted("shared memory segment '" + name + "' would be one more than the " +
                               std::to_string(kMostSegments) + " that a world may have");
    }
    OwnedDescriptor made;
    status = MakeMemoryFile("npu_bridge_" + name, bytes, &made);
    if (!status.ok()) return status;
    segment = segments_.emplace(name, std::move(made)).first;
  } else {
    status = GrowMemoryFile(name, bytes, segment->second);
    if (!status.ok()) return status;
  }
  *descriptor = OwnedDescriptor::Make(
      [&segment] { return ::fcntl(segment->second.get(), F_DUPFD_CLOEXEC, 0); });
  if (!descriptor->valid()) {
    return ResourceExhausted(
        WithErrno("cannot open shared memory segment '" + name + "' (see ulimit -n)", errno));
  }
  return Status::Ok();
}

}  // namespace control
}  // namespace npu_bridge
