// One rank's end of the shared memory transport.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_SHM_ENDPOINT_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_SHM_ENDPOINT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/common/status.h"
#include "csrc/transport/shm/engine.h"
#include "csrc/transport/shm/operation.h"
#include "csrc/transport/shm/operation_table.h"
#include "csrc/transport/shm/pool.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace shm {

class Endpoint {
 public:
  static Status Open(const npu_transport_world& world, const npu_transport_services& services,
                     std::unique_ptr<Endpoint>* endpoint);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Status MakeGroup(const npu_transport_group& description, std::unique_ptr<GroupContext>* group);
  Status Start(const GroupContext& group, const npu_transport_request& request);
  void Cancel(std::uint64_t match_id, const Status& reason) { engine_.Cancel(match_id, reason); }
  void RankGone(std::int32_t world_rank);
  std::string Describe();

 private:
  Endpoint(const npu_transport_world& world, std::shared_ptr<Pool> pool);

  bool MaySpin();
  // Drops what ranks held that are gone, as soon as their processes are no more. Until then a
  // process that has only left may still read its results.
  void DropGoneRanks();
  bool ProcessIsGone(std::int32_t host_rank);
  std::int32_t HostRank(std::int32_t world_rank) const;  // -1: not on this host

  const std::vector<std::int32_t> host_ranks_;  // world ranks
  const std::int32_t host_rank_;
  std::shared_ptr<Pool> pool_;
  OperationTable table_;
  std::atomic<int> may_spin_{-1};  // -1: not known yet
  Engine engine_;                  // last: its thread uses all of the above
};

}  // namespace shm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_SHM_ENDPOINT_H_
