#include "csrc/common/memory_available.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

namespace npu_bridge {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

class File {
 public:
  explicit File(const std::string& path) : file_(std::fopen(path.c_str(), "re")) {}
  ~File() {
    if (file_ != nullptr) std::fclose(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool NextLine(char* line, int bytes) {
    return file_ != nullptr && std::fgets(line, bytes, file_) != nullptr;
  }

 private:
  std::FILE* file_;
};

// The number after `name` at the start of a line; kUnknown without such a line.
std::uint64_t NamedNumber(const std::string& path, const char* name) {
  File file(path);
  char line[256];
  while (file.NextLine(line, sizeof(line))) {
    if (std::strncmp(line, name, std::strlen(name)) != 0) continue;
    unsigned long long number = 0;
    if (std::sscanf(line + std::strlen(name), "%llu", &number) == 1) return number;
  }
  return kUnknown;
}

// kUnknown also for the text "max".
std::uint64_t OnlyNumber(const std::string& path) { return NamedNumber(path, ""); }

// Path of this process's control group below `controller`'s hierarchy ("" is version 2's).
std::string ControlGroup(const char* controller) {
  File file("/proc/self/cgroup");
  char line[4096];
  while (file.NextLine(line, sizeof(line))) {
    char* names = std::strchr(line, ':');
    if (names == nullptr) continue;
    char* path = std::strchr(++names, ':');
    if (path == nullptr) continue;
    *path++ = '\0';
    path[std::strcspn(path, "\n")] = '\0';
    if (std::strcmp(names, controller) == 0) return path;
  }
  return "/";
}

// Page cache of files can be dropped; shared memory is not counted among it.
std::uint64_t Left(const std::string& folder, const char* limit_file, const char* usage_file) {
  const std::uint64_t limit = OnlyNumber(folder + limit_file);
  const std::uint64_t usage = OnlyNumber(folder + usage_file);
  if (limit == kUnknown || usage == kUnknown) return kUnknown;
  std::uint64_t reclaimable = 0;
  for (const char* name : {"active_file ", "inactive_file "}) {
    const std::uint64_t bytes = NamedNumber(folder + "/memory.stat", name);
    if (bytes != kUnknown) reclaimable += bytes;
  }
  const std::uint64_t used = usage - std::min(usage, reclaimable);
  return limit > used ? limit - used : 0;
}

}  // namespace

std::uint64_t AvailableMemoryBytes() {
  std::uint64_t available = kUnknown;
  const std::uint64_t machine_kib = NamedNumber("/proc/meminfo", "MemAvailable:");
  if (machine_kib != kUnknown) available = machine_kib * 1024;
  available = std::min(available,
                       Left("/sys/fs/cgroup" + ControlGroup(""), "/memory.max", "/memory.current"));
  return std::min(available, Left("/sys/fs/cgroup/memory" + ControlGroup("memory"),
                                  "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
}

}  // namespace npu_bridge
