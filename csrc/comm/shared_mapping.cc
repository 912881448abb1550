#include "csrc/comm/shared_mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <map>
#include <mutex>
#include <tuple>

namespace npu_bridge {
namespace comm {
namespace {

// The process is part of it: a forked child does not have its parent's mappings.
using File = std::tuple<pid_t, dev_t, ino_t>;

struct Registry {
  std::mutex mutex;  // guards files
  std::map<File, std::weak_ptr<SharedMapping>> files;
};

// Never destroyed: worlds may end after static destructors.
Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

}  // namespace

std::shared_ptr<SharedMapping> SharedMapping::Of(int descriptor, std::uint64_t bytes) {
  struct stat file;
  if (fstat(descriptor, &file) != 0) return nullptr;
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  // A file whose mapping is gone may have given its number to another.
  for (auto entry = registry.files.begin(); entry != registry.files.end();) {
    entry = entry->second.expired() ? registry.files.erase(entry) : std::next(entry);
  }
  std::weak_ptr<SharedMapping>& known = registry.files[File(getpid(), file.st_dev, file.st_ino)];
  std::shared_ptr<SharedMapping> mapping = known.lock();
  if (mapping != nullptr) return mapping;
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) return nullptr;
  // A forked child's copy of the locks would be its parent's.
  madvise(base, bytes, MADV_DONTFORK);
  mapping.reset(new SharedMapping(static_cast<char*>(base), bytes));
  known = mapping;
  return mapping;
}

SharedMapping::~SharedMapping() { munmap(base_, bytes_); }

}  // namespace comm
}  // namespace npu_bridge
