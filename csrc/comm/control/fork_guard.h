// What a forked child must not keep: descriptors and shared memory of ours. A socket that stays
// open in a child hides its owner's death, and a shared mapping lets a child write into a running
// job.
//
// Every descriptor and mapping of comm/control is registered here; a pthread_atfork handler closes
// and replaces them in the child. It is installed with the first registration. A child that is
// forked before there was any begins as its parent did: it may become a rank.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_FORK_GUARD_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_FORK_GUARD_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "csrc/comm/control/process_events.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

// While one exists no fork of this process begins: held around a system call that makes
// descriptors, until they are registered. Never around one that blocks.
class ForkBlocked {
 public:
  ForkBlocked();
  ~ForkBlocked();
  ForkBlocked(const ForkBlocked&) = delete;
  ForkBlocked& operator=(const ForkBlocked&) = delete;
};

// Closes its descriptor in the end, and in a forked child at once.
class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  // Takes a descriptor that was made under the lock. -1 is allowed: not valid(). Those of the
  // standard streams, which a process may have closed, are exchanged for others.
  OwnedDescriptor(const ForkBlocked& lock, int descriptor);
  ~OwnedDescriptor() { Close(); }
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : descriptor_(other.descriptor_) {
    other.descriptor_ = -1;
  }
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept;

  // `make` returns a new descriptor, or -1 with errno set. In a forked child it is not called.
  template <typename Function>
  static OwnedDescriptor Make(Function make);
  // `make` fills in two descriptors and returns 0, or returns -1 with errno set.
  template <typename Function>
  static bool MakePair(Function make, OwnedDescriptor* first, OwnedDescriptor* second);
  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }
  // Leaves errno alone.
  void Close();
  // Hands the descriptor to a caller who closes it, in a forked child too.
  int Release();

 private:
  int descriptor_ = -1;
};

template <typename Function>
OwnedDescriptor OwnedDescriptor::Make(Function make) {
  const ForkBlocked lock;
  return OwnedDescriptor(lock, IsForkedChild() ? -1 : make());
}

template <typename Function>
bool OwnedDescriptor::MakePair(Function make, OwnedDescriptor* first, OwnedDescriptor* second) {
  int pair[2] = {-1, -1};
  OwnedDescriptor made[2];
  {
    const ForkBlocked lock;
    if (IsForkedChild() || make(pair) != 0) return false;
    made[0] = OwnedDescriptor(lock, pair[0]);
    made[1] = OwnedDescriptor(lock, pair[1]);
  }
  *first = std::move(made[0]);
  *second = std::move(made[1]);
  return true;
}

// Ends of a pipe that the process keeps for good.
struct ProcessPipe {
  int read_end = -1;
  int write_end = -1;
};

// Makes the pipe with the first call; with -1 in it when that fails, and in a forked child. It does
// not count as use of the library: a child that is forked before any other gets a pipe of its own
// under the same numbers, since its parent's would bring it the parent's signals.
ProcessPipe TheProcessPipe();

// A MAP_SHARED mapping of a whole memory file. In a forked child the same addresses hold zeros of
// the child's own, so that stray reads there are harmless.
class SharedMapping {
 public:
  static Status Map(int descriptor, std::size_t bytes, std::unique_ptr<SharedMapping>* mapping);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  void* data() const { return data_; }

 private:
  SharedMapping(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_;
  std::size_t bytes_;
};

// FailedPrecondition with kForkedChildMessage in a forked child, else ok.
Status CheckNotForked();

// "text: Permission denied", for the errno given.
std::string WithErrno(const std::string& text, int error);

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_FORK_GUARD_H_
