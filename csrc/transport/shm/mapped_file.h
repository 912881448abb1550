// A memory file mapped for reading and writing, once a process.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_MAPPED_FILE_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_MAPPED_FILE_H_

#include <cstdint>
#include <memory>

namespace npu_bridge {
namespace shm {

// Ranks that are threads of one process get the same mapping, so that the thread sanitizer sees
// what they do to each other: it knows addresses, and nothing of two addresses with the same
// memory.
class MappedFile {
 public:
  // The first `bytes` of the file; nullptr, with errno set, when it cannot be mapped. The
  // descriptor may be closed afterwards.
  static std::shared_ptr<MappedFile> Map(int descriptor, std::uint64_t bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  char* data() const { return data_; }

 private:
  MappedFile(char* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}

  char* const data_;
  const std::uint64_t bytes_;
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_MAPPED_FILE_H_
