#include "csrc/transport/shm/shared_memory.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "csrc/transport/c_boundary.h"

// Newer than the C library of some machines that this is built on.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Address space, not memory: size classes that a job no longer uses keep their addresses, so there
// are several times as many as there is memory.
std::uint64_t DataBytes() {
#if defined(__SANITIZE_THREAD__)
  return 32 * kGiB;  // all that a program gets there is about 1.5 TiB
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return 32 * kGiB;
#endif
#endif
  struct sysinfo machine;
  std::uint64_t memory = 0;
  if (sysinfo(&machine) == 0) memory = std::uint64_t{machine.totalram} * machine.mem_unit;
  const std::uint64_t bytes = std::min(std::max(8 * memory, 256 * kGiB), 4096 * kGiB);
  return bytes / kGiB * kGiB;
}

std::string InGiB(std::uint64_t bytes) {
  return std::to_string((bytes + kGiB - 1) / kGiB) + " GiB";
}

Status CannotMap(std::uint64_t bytes, int error) {
  std::string text = "the transport 'shm' cannot map " + InGiB(bytes) +
                     " of address space for shared results (hardly any of it is ever touched): " +
                     std::strerror(error) + ".";
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += " The limit on address space (ulimit -v) of this process is " +
            std::to_string(limit.rlim_cur / 1024) + " KiB; run with ulimit -v unlimited.";
  }
  return ResourceExhausted(text);
}

// Growing a file past the limit would kill the process with SIGXFSZ.
Status CheckFileSizeLimit(std::uint64_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= bytes) {
    return Status::Ok();
  }
  return ResourceExhausted("the transport 'shm' needs a memory file of " + InGiB(bytes) +
                           " (hardly any of it is ever touched), but the limit on file sizes "
                           "(ulimit -f) of this process is " +
                           std::to_string(limit.rlim_cur / 1024) +
                           " KiB; run with ulimit -f unlimited.");
}

Status Share(const npu_transport_services& services, const char* name, std::uint64_t bytes,
             int* descriptor) {
  const Status limit = CheckFileSizeLimit(bytes);
  if (!limit.ok()) return limit;
  npu_transport_status status = {};
  *descriptor = services.share_segment(services.context, name, bytes, &status);
  return *descriptor >= 0 ? Status::Ok() : ToStatus(status);
}

}  // namespace

Status SharedMemory::Open(const npu_transport_world& world, const npu_transport_services& services,
                          std::unique_ptr<SharedMemory>* memory) {
  std::unique_ptr<SharedMemory> opened(new SharedMemory);
  const Status status = opened->Map(world, services);
  if (status.ok()) *memory = std::move(opened);
  return status;
}

Status SharedMemory::Map(const npu_transport_world& world, const npu_transport_services& services) {
  layout_ = Layout(world.host_size, world.slot_count);
  data_bytes_ = DataBytes();
  page_bytes_ = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));

  int control_descriptor = -1;
  Status status = Share(services, "shm.control", layout_.bytes, &control_descriptor);
  if (!status.ok()) return status;
  control_ = MappedFile::Map(control_descriptor, layout_.bytes);
  const int control_error = errno;
  close(control_descriptor);
  if (control_ == nullptr) return CannotMap(layout_.bytes, control_error);

  status = Share(services, "shm.data", data_bytes_, &data_descriptor_);
  if (!status.ok()) return status;
  data_ = MappedFile::Map(data_descriptor_, data_bytes_);
  if (data_ == nullptr) return CannotMap(data_bytes_, errno);
  void* view =
      mmap(nullptr, data_bytes_, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE, data_descriptor_, 0);
  if (view == MAP_FAILED) return CannotMap(data_bytes_, errno);
  view_ = static_cast<char*>(view);
  madvise(view_, data_bytes_, MADV_DONTDUMP);

  pagemap_ = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  void* token =
      mmap(nullptr, page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (token != MAP_FAILED) {
    if (madvise(token, page_bytes_, MADV_WIPEONFORK) == 0) {
      process_token_ = static_cast<volatile char*>(token);
      *process_token_ = 1;
    } else {
      munmap(token, page_bytes_);
    }
  }
  return CheckSignature();
}

Status SharedMemory::CheckSignature() {
  // "shm" and a number that changes with the layout.
  const std::uint64_t signature = (std::uint64_t{0x73686d01} << 32) ^ (layout_.bytes << 8) ^
                                  (data_bytes_ / kGiB) ^ std::uint64_t{sizeof(OperationHeader)};
  std::uint64_t found = 0;
  if (!header().signature.compare_exchange_strong(found, signature) && found != signature) {
    return FailedPrecondition(
        "the transport 'shm' of another rank lays out shared memory differently: the ranks of a "
        "host must run the same build of npu_bridge.");
  }
  return Status::Ok();
}

SharedMemory::~SharedMemory() {
  if (view_ != nullptr) munmap(view_, data_bytes_);
  if (process_token_ != nullptr) munmap(const_cast<char*>(process_token_), page_bytes_);
  if (data_descriptor_ >= 0) close(data_descriptor_);
  if (pagemap_ >= 0) close(pagemap_);
}

Status SharedMemory::OpenView(std::uint64_t offset, std::uint64_t bytes) {
  if (mprotect(view_ + offset, bytes, PROT_READ | PROT_WRITE) == 0) return Status::Ok();
  return ResourceExhausted("the transport 'shm' cannot map a result of " + std::to_string(bytes) +
                           " bytes: " + std::strerror(errno));
}

bool SharedMemory::ViewWasWritten(std::uint64_t offset, std::uint64_t bytes) const {
  if (pagemap_ < 0) return true;
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62;
  constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;
  std::uint64_t entries[512];
  std::uint64_t page = reinterpret_cast<std::uintptr_t>(view_ + offset) / page_bytes_;
  for (std::uint64_t left = bytes / page_bytes_; left > 0;) {
    const std::uint64_t count = std::min<std::uint64_t>(left, 512);
    const ssize_t length = static_cast<ssize_t>(count * sizeof(std::uint64_t));
    if (pread(pagemap_, entries, static_cast<std::size_t>(length),
              static_cast<off_t>(page * sizeof(std::uint64_t))) != length) {
      return true;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      if ((entries[i] & (kPresent | kSwapped)) != 0 && (entries[i] & kOfFile) == 0) return true;
    }
    page += count;
    left -= count;
  }
  return false;
}

void SharedMemory::ResetView(std::uint64_t offset, std::uint64_t bytes) {
  if (ViewWasWritten(offset, bytes)) madvise(view_ + offset, bytes, MADV_DONTNEED);
}

Status SharedMemory::Populate(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t begin = offset / page_bytes_ * page_bytes_;
  if (madvise(data() + begin, offset + bytes - begin, MADV_POPULATE_WRITE) == 0)
    return Status::Ok();
  // Unknown to the kernel before 5.14: the pages then come one by one as they are written.
  if (errno == EINVAL) return Status::Ok();
  return ResourceExhausted("this host has no memory for " + std::to_string(bytes) +
                           " bytes of a shared result: " + std::strerror(errno));
}

bool SharedMemory::Punch(std::uint64_t offset, std::uint64_t bytes) {
  return fallocate(data_descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                   static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

}  // namespace shm
}  // namespace npu_bridge
