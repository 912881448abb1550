#include "csrc/transport/shm/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

namespace npu_bridge {
namespace shm {
namespace {

struct Mappings {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<MappedFile>> by_file;
};

// Never destroyed: mappings may be let go of while static destructors run.
Mappings& AllMappings() {
  static Mappings* mappings = new Mappings;
  return *mappings;
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::Map(int descriptor, std::uint64_t bytes) {
  struct stat file;
  if (fstat(descriptor, &file) != 0) return nullptr;
  Mappings& mappings = AllMappings();
  std::lock_guard<std::mutex> lock(mappings.mutex);
  // A mapping keeps its file alive, so an entry that has expired may name a file that is no more.
  for (auto entry = mappings.by_file.begin(); entry != mappings.by_file.end();) {
    entry = entry->second.expired() ? mappings.by_file.erase(entry) : std::next(entry);
  }
  std::weak_ptr<MappedFile>& known = mappings.by_file[{file.st_dev, file.st_ino}];
  std::shared_ptr<MappedFile> mapped = known.lock();
  if (mapped != nullptr && mapped->bytes_ >= bytes) return mapped;
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_DONTDUMP);
  mapped.reset(new MappedFile(static_cast<char*>(data), bytes));
  known = mapped;
  return mapped;
}

MappedFile::~MappedFile() { munmap(data_, bytes_); }

}  // namespace shm
}  // namespace npu_bridge
