#include "csrc/comm/control/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace npu_bridge {
namespace control {

Status MakeMemoryFile(const std::string& name, std::uint64_t bytes, OwnedDescriptor* file) {
  const Status forked = CheckNotForked();
  if (!forked.ok()) return forked;
  *file = OwnedDescriptor::Make([&name] {
    // Newer kernels want to be told that the file holds no program; older ones refuse the flag.
    const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    const int made = ::memfd_create(name.c_str(), flags | MFD_NOEXEC_SEAL);
    return made >= 0 || errno != EINVAL ? made : ::memfd_create(name.c_str(), flags);
  });
  if (!file->valid()) {
    return ResourceExhausted(WithErrno("cannot make the memory file '" + name + "'", errno));
  }
  const Status grown = GrowMemoryFile(name, bytes, *file);
  if (!grown.ok()) return grown;
  if (::fcntl(file->get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return Internal(WithErrno("cannot seal the memory file '" + name + "'", errno));
  }
  return Status::Ok();
}

Status GrowMemoryFile(const std::string& name, std::uint64_t bytes, const OwnedDescriptor& file) {
  struct stat now = {};
  if (::fstat(file.get(), &now) == 0 && static_cast<std::uint64_t>(now.st_size) >= bytes) {
    return Status::Ok();
  }
  const std::string wanted =
      "cannot make the memory file '" + name + "' " + std::to_string(bytes) + " bytes long";
  // Beyond this limit the kernel would send SIGXFSZ, which ends the process.
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    return ResourceExhausted(wanted + ": files may have " + std::to_string(limit.rlim_cur) +
                             " bytes only. Raise the limit (ulimit -f unlimited).");
  }
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return ResourceExhausted(WithErrno(wanted, errno));
  }
  return Status::Ok();
}

Status CheckMemoryFile(const std::string& name, std::uint64_t bytes, int descriptor) {
  struct stat file = {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (::fstat(descriptor, &file) != 0 || file.st_size < 0 ||
      static_cast<std::uint64_t>(file.st_size) < bytes || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return Internal("the memory file '" + name + "' that another rank passed is not one of " +
                    std::to_string(bytes) + " bytes that cannot shrink");
  }
  return Status::Ok();
}

}  // namespace control
}  // namespace npu_bridge
