// The two memory files of a host as one rank has them mapped.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_SHARED_MEMORY_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_SHARED_MEMORY_H_

#include <cstdint>
#include <memory>

#include "csrc/common/status.h"
#include "csrc/transport/shm/layout.h"
#include "csrc/transport/shm/mapped_file.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace shm {

// The control segment holds the records of layout.h. The data segment is huge and sparse, and is
// mapped twice: `data` is the memory itself, `view` a private mapping of it. A page of the view
// shows what the ranks write until this process writes there: from then on the page is its own.
class SharedMemory {
 public:
  static Status Open(const npu_transport_world& world, const npu_transport_services& services,
                     std::unique_ptr<SharedMemory>* memory);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const Layout& layout() const { return layout_; }
  std::uint64_t data_bytes() const { return data_bytes_; }
  std::uint64_t page_bytes() const { return page_bytes_; }

  Header& header() { return *At<Header>(0); }
  RankRecord& rank(std::int32_t host_rank) {
    return *At<RankRecord>(layout_.ranks + Index(host_rank) * sizeof(RankRecord));
  }
  // Bitmap of the slots whose operation the rank takes part in.
  std::atomic<std::uint64_t>* in_flight(std::int32_t host_rank) {
    return At<std::atomic<std::uint64_t>>(layout_.in_flight +
                                          Index(host_rank) * layout_.in_flight_words * 8);
  }
  FreeStack& stack(std::uint32_t size_class, bool warm) {
    return *At<FreeStack>(layout_.stacks +
                          (std::uint64_t{size_class} * 2 + (warm ? 0 : 1)) * sizeof(FreeStack));
  }
  // `block` must be in [1, kMaxBlocks].
  BlockRecord& block(std::uint32_t block) {
    return *At<BlockRecord>(layout_.blocks + std::uint64_t{block} * sizeof(BlockRecord));
  }
  OperationHeader& operation(std::uint32_t slot) {
    return *At<OperationHeader>(layout_.operations + slot * layout_.operation_stride);
  }
  MemberCell& cell(std::uint32_t slot, std::int32_t member) {
    return *At<MemberCell>(layout_.operations + slot * layout_.operation_stride +
                           sizeof(OperationHeader) + Index(member) * sizeof(MemberCell));
  }

  char* data() { return data_->data(); }
  char* view() { return view_; }

  // Makes a range of the view accessible. Not all of it at once: a machine with strict overcommit
  // counts every writable private byte.
  Status OpenView(std::uint64_t offset, std::uint64_t bytes);
  // Undoes this process's writes to the view, if there were any. The range is whole pages.
  void ResetView(std::uint64_t offset, std::uint64_t bytes);
  // Touches a range of the data, so that a lack of memory is an error here and not a signal later.
  Status Populate(std::uint64_t offset, std::uint64_t bytes);
  // Gives a range of the data back to the machine; it reads as zeros again.
  bool Punch(std::uint64_t offset, std::uint64_t bytes);

  // In a child made by fork nothing here is the child's own: it must change no record.
  bool InForkedChild() const { return process_token_ != nullptr && *process_token_ == 0; }

 private:
  SharedMemory() = default;
  Status Map(const npu_transport_world& world, const npu_transport_services& services);
  Status CheckSignature();
  bool ViewWasWritten(std::uint64_t offset, std::uint64_t bytes) const;

  static std::uint64_t Index(std::int32_t i) { return static_cast<std::uint64_t>(i); }
  template <typename T>
  T* At(std::uint64_t offset) {
    return reinterpret_cast<T*>(control_->data() + offset);
  }

  Layout layout_;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t page_bytes_ = 4096;
  std::shared_ptr<MappedFile> control_;
  std::shared_ptr<MappedFile> data_;
  char* view_ = nullptr;
  int data_descriptor_ = -1;
  int pagemap_ = -1;  // /proc/self/pagemap; -1: unreadable, every view counts as written
  // A page that the kernel clears in a forked child; nullptr where it cannot.
  volatile char* process_token_ = nullptr;
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_SHARED_MEMORY_H_
