// A request in flight on this rank.
#ifndef NPU_BRIDGE_CSRC_COMM_OPERATION_H_
#define NPU_BRIDGE_CSRC_COMM_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "csrc/comm/matching.h"
#include "csrc/comm/request_check.h"
#include "csrc/comm/transport_set.h"
#include "csrc/comm/world.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace comm {

class Engine;

// Each step onwards is claimed by compare-and-swap: the submitting thread, the engine and a
// transport may all try, and one of them goes on with the request.
enum class Phase : int {
  kWaiting = 0,   // for the other ranks
  kOrdering = 1,  // matched; waits for its turn where a transport needs one order
  kStarting = 2,  // inside the transport's start()
  kRunning = 3,   // the transport has it
  kDone = 4,
};

struct Operation : std::enable_shared_from_this<Operation> {
  Operation(RequestId the_id, std::shared_ptr<CollectiveRequest> the_request,
            CollectiveCallback callback)
      : id(the_id), request(std::move(the_request)), done(std::move(callback)) {}

  bool Claim(Phase from, Phase to) { return phase.compare_exchange_strong(from, to); }
  bool has_cell() const { return ref.cell != kNoCell; }
  const Group& group() const { return binding->group(); }
  // Messages between two ranks have an order of their own.
  bool in_one_order() const {
    return route.NeedsOneOrder() && !IsPointToPoint(request->collective);
  }

  const RequestId id;
  const std::shared_ptr<CollectiveRequest> request;
  CollectiveCallback done;
  Engine* engine = nullptr;
  // As its name was understood when the request came: it may be destroyed while the ranks meet.
  std::shared_ptr<const Group> named_group;
  std::shared_ptr<GroupBinding> binding;
  Route route;
  CellRef ref;
  std::atomic<Phase> phase{Phase::kWaiting};
  std::int64_t submitted_ns = 0;
  bool stall_told = false;       // the engine's thread only
  bool queued_in_order = false;  // guarded by the order queue's mutex

  // Lent to the transport from start() to done().
  std::vector<AllToAllCounts> counts;
  std::vector<npu_transport_tensor> tensors;
  npu_transport_request transport_request;
  void* transport_operation = nullptr;
  // Keeps the operation alive while the transport may call back.
  std::shared_ptr<Operation> self;
};

// Fills tensors, counts and transport_request in.
void PrepareTransportRequest(Operation* operation);

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_OPERATION_H_
