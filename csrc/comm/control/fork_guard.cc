#include "csrc/comm/control/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "csrc/comm/control/process_events.h"

namespace npu_bridge {
namespace control {
namespace {

std::atomic<bool> forked_child{false};

struct Registry {
  std::mutex mutex;
  std::set<int> descriptors;
  std::map<void*, std::size_t> mappings;
  bool is_used = false;  // something has been registered
  ProcessPipe pipe;
};

// Never destroyed: descriptors are closed after static destructors have run, too.
Registry& TheRegistry();

void BeforeFork() { TheRegistry().mutex.lock(); }

void AfterForkInParent() { TheRegistry().mutex.unlock(); }

// A child of a process with threads may make system calls, but not allocate.
void RenewPipe(const ProcessPipe& pipe) {
  if (pipe.read_end < 0) return;
  int fresh[2];
  if (::pipe2(fresh, O_CLOEXEC | O_NONBLOCK) != 0) {
    // Without a reader nothing is written there that the parent would take for a signal of its own.
    ::close(pipe.read_end);
    ::close(pipe.write_end);
    return;
  }
  ::dup3(fresh[0], pipe.read_end, O_CLOEXEC);
  ::dup3(fresh[1], pipe.write_end, O_CLOEXEC);
  ::close(fresh[0]);
  ::close(fresh[1]);
}

void AfterForkInChild() {
  Registry& registry = TheRegistry();
  if (!registry.is_used) {
    RenewPipe(registry.pipe);
    registry.mutex.unlock();
    return;
  }
  forked_child.store(true);
  if (registry.pipe.read_end >= 0) {
    ::close(registry.pipe.read_end);
    ::close(registry.pipe.write_end);
    registry.pipe = ProcessPipe();
  }
  for (const int descriptor : registry.descriptors) ::close(descriptor);
  registry.descriptors.clear();
  for (const auto& mapping : registry.mappings) {
    void* const mapped = ::mmap(mapping.first, mapping.second, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    // A child has nobody to tell of a failure, and its calls raise before they look there.
    if (mapped == MAP_FAILED) continue;
  }
  registry.mappings.clear();
  registry.mutex.unlock();
}

// What is written to a standard stream that was closed must not end up in a socket of ours.
int AboveStandardStreams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int other = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int kept_errno = errno;
  ::close(descriptor);
  errno = kept_errno;
  return other;
}

Registry& TheRegistry() {
  static Registry* const registry = [] {
    Registry* made = new Registry;
    // Fails for want of memory only.
    (void)pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    return made;
  }();
  return *registry;
}

}  // namespace

const char* const kForkedChildMessage =
    "this process was forked from a rank after the rank began to use collectives; collectives work "
    "in the rank itself only. Start the child by spawn or exec, or fork it before the first "
    "collective.";

bool IsForkedChild() { return forked_child.load(std::memory_order_relaxed); }

Status CheckNotForked() {
  return IsForkedChild() ? FailedPrecondition(kForkedChildMessage) : Status::Ok();
}

ForkBlocked::ForkBlocked() { TheRegistry().mutex.lock(); }

ForkBlocked::~ForkBlocked() { TheRegistry().mutex.unlock(); }

OwnedDescriptor::OwnedDescriptor(const ForkBlocked& /*lock*/, int descriptor)
    : descriptor_(AboveStandardStreams(descriptor)) {
  if (descriptor_ < 0) return;
  TheRegistry().descriptors.insert(descriptor_);
  TheRegistry().is_used = true;
}

ProcessPipe TheProcessPipe() {
  const ForkBlocked lock;
  ProcessPipe& pipe = TheRegistry().pipe;
  int ends[2];
  if (pipe.read_end >= 0 || IsForkedChild() || ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return pipe;
  }
  pipe.read_end = AboveStandardStreams(ends[0]);
  pipe.write_end = AboveStandardStreams(ends[1]);
  if (pipe.read_end < 0 || pipe.write_end < 0) {
    if (pipe.read_end >= 0) ::close(pipe.read_end);
    if (pipe.write_end >= 0) ::close(pipe.write_end);
    pipe = ProcessPipe();
  }
  return pipe;
}

OwnedDescriptor& OwnedDescriptor::operator=(OwnedDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void OwnedDescriptor::Close() {
  if (descriptor_ < 0) return;
  const int kept_errno = errno;
  {
    const ForkBlocked lock;
    // Absent only in a forked child, where the number may by now be a descriptor of somebody else.
    if (TheRegistry().descriptors.erase(descriptor_) > 0) ::close(descriptor_);
  }
  descriptor_ = -1;
  errno = kept_errno;
}

int OwnedDescriptor::Release() {
  const ForkBlocked lock;
  TheRegistry().descriptors.erase(descriptor_);
  return std::exchange(descriptor_, -1);
}

Status SharedMapping::Map(int descriptor, std::size_t bytes,
                          std::unique_ptr<SharedMapping>* mapping) {
  const ForkBlocked lock;
  if (IsForkedChild()) return FailedPrecondition(kForkedChildMessage);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    return ResourceExhausted(WithErrno("cannot map the shared memory between the ranks", errno));
  }
  TheRegistry().mappings[data] = bytes;
  TheRegistry().is_used = true;
  mapping->reset(new SharedMapping(data, bytes));
  return Status::Ok();
}

SharedMapping::~SharedMapping() {
  const ForkBlocked lock;
  TheRegistry().mappings.erase(data_);
  ::munmap(data_, bytes_);
}

std::string WithErrno(const std::string& text, int error) {
  char buffer[128];
  return text + ": " + ::strerror_r(error, buffer, sizeof buffer);
}

}  // namespace control
}  // namespace npu_bridge
