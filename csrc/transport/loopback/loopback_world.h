// The meeting point of the ranks of one loopback world, all in this process.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_LOOPBACK_LOOPBACK_WORLD_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_LOOPBACK_LOOPBACK_WORLD_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "csrc/common/status.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace loopback {

// One rank's part in a collective.
struct Participant {
  npu_transport_request request = {};
  bool present = false;
};

// Payloads of a send, one a tensor, kept until the receiver comes.
using Message = std::vector<std::vector<char>>;

class World {
 public:
  // The world whose ranks share the memory file `descriptor`: that is what tells worlds apart.
  static Status Find(int descriptor, std::shared_ptr<World>* world);

  // The last member to arrive carries the collective out, for all of them.
  void Arrive(const npu_transport_group& group, const npu_transport_request& request);
  void Send(const npu_transport_group& group, const npu_transport_request& request);
  void Receive(const npu_transport_group& group, const npu_transport_request& request);

  // Ends member `rank`'s request, if it still waits.
  void Cancel(std::int32_t rank, std::uint64_t match_id, const npu_transport_status& reason);

  std::string Describe();

 private:
  std::mutex mutex_;
  // Requests that wait for members; taken out, under the mutex, by whoever ends them.
  std::map<std::uint64_t, std::vector<Participant>> waiting_;
  std::map<std::uint64_t, Message> messages_;
  std::map<std::uint64_t, Participant> receivers_;
  std::uint64_t completed_ = 0;
};

}  // namespace loopback
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_LOOPBACK_LOOPBACK_WORLD_H_
