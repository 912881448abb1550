// The transports that are open in this world, and a group as they know it.
#ifndef NPU_BRIDGE_CSRC_COMM_TRANSPORT_SET_H_
#define NPU_BRIDGE_CSRC_COMM_TRANSPORT_SET_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/group_table.h"
#include "csrc/common/collective_request.h"
#include "csrc/common/settings.h"
#include "csrc/common/status.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace comm {

class TransportSet {
 public:
  // Opens what settings.transport names; "auto" is what serves ranks of one host (`in_process`:
  // ranks that are threads). Blocks. A world of one rank needs no transport.
  static Status Open(const Settings& settings, const std::shared_ptr<control::HostChannel>& channel,
                     bool in_process, std::shared_ptr<TransportSet>* transports);
  ~TransportSet();
  TransportSet(const TransportSet&) = delete;
  TransportSet& operator=(const TransportSet&) = delete;

  std::size_t size() const { return opened_.size(); }
  const npu_transport_interface_v1* functions(std::size_t i) const { return opened_[i]->functions; }
  void* handle(std::size_t i) const { return opened_[i]->handle; }

  void RankGone(std::int32_t world_rank);
  std::string Describe();

 private:
  struct Opened {
    const npu_transport_interface_v1* functions = nullptr;
    void* handle = nullptr;
    npu_transport_services services;
    std::shared_ptr<control::HostChannel> channel;  // outlives close()
  };

  TransportSet() = default;

  static int ShareSegment(void* context, const char* name, std::uint64_t bytes,
                          npu_transport_status* status);
  static int RankIsAlive(void* context, std::int32_t world_rank);
  static void Log(void* context, std::int32_t severity, const char* text);

  Status OpenOne(const std::string& name, const Settings& settings,
                 const std::shared_ptr<control::HostChannel>& channel);

  std::vector<std::unique_ptr<Opened>> opened_;
};

// Who moves the bytes of one request.
struct Route {
  const npu_transport_interface_v1* functions = nullptr;
  void* group = nullptr;

  bool NeedsOneOrder() const { return (functions->flags & NPU_TRANSPORT_NEEDS_ONE_ORDER) != 0; }
};

// A group of this world with its counterparts in the transports, which are made when first needed
// and end with the last request in flight.
class GroupBinding {
 public:
  GroupBinding(std::shared_ptr<const Group> group, std::shared_ptr<TransportSet> transports);
  ~GroupBinding();
  GroupBinding(const GroupBinding&) = delete;
  GroupBinding& operator=(const GroupBinding&) = delete;

  const Group& group() const { return *group_; }

  // The transport that serves the request best; all ranks come to the same answer. Unimplemented,
  // with each transport's reason, when none does.
  Status Choose(const CollectiveRequest& request, Route* route);

 private:
  Status GroupOf(std::size_t transport, void** group);

  const std::shared_ptr<const Group> group_;
  const std::shared_ptr<TransportSet> transports_;
  std::mutex mutex_;
  std::vector<void*> groups_;  // by transport
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_TRANSPORT_SET_H_
