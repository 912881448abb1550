// What the ranks of a test share without a control plane: memory files, a barrier, who is alive.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_SHARED_WORLD_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_SHARED_WORLD_H_

#include <atomic>
#include <cstdint>

#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace conformance {

constexpr int kMaxRanks = 64;
constexpr int kMaxFiles = 8;

// Made before the ranks are (threads or forked processes); everything lies in shared memory.
class SharedWorld {
 public:
  explicit SharedWorld(int size);
  ~SharedWorld();
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;

  npu_transport_services Services();

  // Waits until all ranks that are alive have called it.
  void Barrier();
  void MarkDead(int rank);
  bool IsAlive(int rank) const;
  void WaitUntilDead(int rank);

 private:
  struct State {
    std::atomic<std::uint32_t> lock;  // guards the files
    char names[kMaxFiles][64];
    std::atomic<std::uint32_t> alive_count;
    std::atomic<std::uint32_t> alive[kMaxRanks];
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> barrier_round;
    std::atomic<std::uint32_t> deaths;
  };

  static int ShareSegment(void* context, const char* name, std::uint64_t bytes,
                          npu_transport_status* status);
  static int RankIsAlive(void* context, std::int32_t rank);
  static void Log(void* context, std::int32_t severity, const char* text);

  State* state_;
  int files_[kMaxFiles];
};

}  // namespace conformance
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_SHARED_WORLD_H_
