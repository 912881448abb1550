// A memory file mapped for reading and writing, once in a process.
#ifndef NPU_BRIDGE_CSRC_COMM_SHARED_MAPPING_H_
#define NPU_BRIDGE_CSRC_COMM_SHARED_MAPPING_H_

#include <cstdint>
#include <memory>

namespace npu_bridge {
namespace comm {

class SharedMapping {
 public:
  // Ranks that are threads of one process get the same mapping of a file: a lock in it is then one
  // lock to tools that know locks by their addresses, such as the thread sanitizer. Null, with
  // errno set, when it cannot be mapped. Forked children do not get the memory.
  static std::shared_ptr<SharedMapping> Of(int descriptor, std::uint64_t bytes);

  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  char* base() const { return base_; }

 private:
  SharedMapping(char* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}

  char* const base_;
  const std::uint64_t bytes_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_SHARED_MAPPING_H_
