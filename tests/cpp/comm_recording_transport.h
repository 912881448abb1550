// Transports for tests that forward to loopback: "recording", and "recording_ordered", which asks
// for one order. They keep who started what, and can be made to hold, refuse or fail requests.
#ifndef NPU_BRIDGE_TESTS_CPP_COMM_RECORDING_TRANSPORT_H_
#define NPU_BRIDGE_TESTS_CPP_COMM_RECORDING_TRANSPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace npu_bridge {
namespace comm_test {

struct Recording {
  // Forgets all settings and records.
  static void Reset();

  // match_ids in the order in which the rank started them.
  static std::vector<std::uint64_t> Started(std::int32_t rank);
  // Waits until each of the first `ranks` ranks has started a request; false after a minute.
  static bool WaitForStarts(std::int32_t ranks);
  static int Cancelled(std::int32_t rank);
  // Waits until the rank's transport was told that `gone` is; false after a minute.
  static bool WaitForGone(std::int32_t rank, std::int32_t gone);

  // From now on start() keeps requests to itself; Release forwards what was kept.
  static void Hold();
  static void Release();
  // start() on this rank fails with the text; -1: on none.
  static void FailStart(std::int32_t rank, const std::string& text);
  // score() is 0 for this collective; -1: for none.
  static void Refuse(std::int32_t collective);
};

}  // namespace comm_test
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_TESTS_CPP_COMM_RECORDING_TRANSPORT_H_
