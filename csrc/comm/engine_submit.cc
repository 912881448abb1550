// The way of a request, on whichever thread brings it on: the submitting one, the engine's, or one
// of the transport. No lock is held while a callback or the transport is called.
#include <sched.h>

#include "csrc/comm/clock.h"
#include "csrc/comm/engine.h"
#include "csrc/comm/messages.h"
#include "csrc/comm/request_check.h"
#include "csrc/common/processor.h"
#include "csrc/transport/c_boundary.h"

namespace npu_bridge {
namespace comm {
namespace {

// About what handing a request over to another thread costs.
constexpr std::int64_t kSpinNanoseconds = 50 * 1000;
constexpr int kYieldsWhenCrowded = 2;
// From a transport's failure on one rank until it stands in the cell.
constexpr std::int64_t kPostNanoseconds = 20 * 1000 * 1000;

}  // namespace

Status Engine::Check(const Operation& operation) const {
  const CollectiveRequest& request = *operation.request;
  if (request.refusal.ok()) return CheckRequest(request, operation.group());
  const std::string& text = request.refusal.message();
  if (text.compare(0, 4, "Hcom") == 0) return request.refusal;
  return Status(request.refusal.code(),
                DescribeOp(request) + ": " +
                    DescribeRank(operation.group(), operation.group().rank) + ": " + text);
}

void Engine::Submit(const std::shared_ptr<Operation>& operation,
                    const std::shared_ptr<const Group>& group, bool may_spin) {
  submitted_.fetch_add(1, std::memory_order_relaxed);
  unfinished_.fetch_add(1);
  operation->engine = this;
  operation->submitted_ns = MonotonicNanoseconds();
  // Counted before this is read, so that Stop, which sets it first, waits for whoever passes.
  if (stopping_.load()) {
    operation->phase.store(Phase::kDone);
    Finish(operation,
           FailedPrecondition(DescribeOp(*operation->request) + ": this rank is shutting down."),
           {});
    return;
  }
  operation->binding = Bind(group);
  const Status refusal = Check(*operation);
  if (SubmitAlone(operation, refusal) || SubmitToGone(operation)) return;

  const Arrival arrival(*group, *operation->request);
  Status status = refusal;
  if (status.ok()) status = operation->binding->Choose(*operation->request, &operation->route);
  CellState state = CellState::kFree;
  if (!status.ok()) {
    matching_->Refuse(arrival, status);
  } else {
    status = matching_->Arrive(arrival, &operation->ref, &state);
  }
  if (!status.ok()) {
    operation->phase.store(Phase::kDone);
    Finish(operation, status, {});
    return;
  }
  Register(operation);
  // Read again: a failure that came before the operation was registered told nobody.
  state = matching_->State(operation->ref);
  if (operation->request->collective == Collective::kSend && state == CellState::kOpen) {
    Begin(operation);  // waits for no receiver
    return;
  }
  if (state == CellState::kOpen && may_spin) state = Spin(*operation);
  if (state == CellState::kOpen) {
    Park(operation);
  } else {
    Look(operation);
  }
}

// What needs no other rank. False: the request must go to the table.
bool Engine::SubmitAlone(const std::shared_ptr<Operation>& operation, const Status& refusal) {
  const CollectiveRequest& request = *operation->request;
  const Group& group = operation->group();
  const bool to_peer = IsPointToPoint(request.collective);
  const bool peer_known = request.peer_rank >= 0 && request.peer_rank < group.size();
  if (to_peer && peer_known && request.peer_rank == group.rank && refusal.ok()) {
    if (request.collective == Collective::kSend) {
      SendToSelf(operation);
    } else {
      ReceiveFromSelf(operation);
    }
    return true;
  }
  Status status = refusal;
  // Without a peer there is no key under which a refusal could be posted.
  const bool alone =
      group.size() == 1 || (to_peer && (!peer_known || request.peer_rank == group.rank));
  if (!alone) return false;
  std::vector<CollectiveResult> results;
  if (status.ok()) status = RunAlone(request, group, &results);
  if (!status.ok()) results.clear();
  operation->phase.store(Phase::kDone);
  Finish(operation, status, std::move(results));
  return true;
}

void Engine::SendToSelf(const std::shared_ptr<Operation>& operation) {
  SelfMailbox::Message message;
  for (;;) {
    const std::shared_ptr<Operation> receive =
        mailbox_.Send(*operation->request, operation->group(), &message);
    if (receive == nullptr) break;
    // Cancelled in this moment: the message is for the next one.
    if (!receive->Claim(Phase::kWaiting, Phase::kDone)) continue;
    std::vector<CollectiveResult> results;
    const Status status =
        SelfMailbox::Deliver(*receive->request, receive->group(), message, &results);
    if (!status.ok()) results.clear();
    Finish(receive, status, std::move(results));
    break;
  }
  operation->phase.store(Phase::kDone);
  Finish(operation, Status::Ok(), {});
}

void Engine::ReceiveFromSelf(const std::shared_ptr<Operation>& operation) {
  SelfMailbox::Message message;
  if (!mailbox_.Receive(operation, *operation->request, operation->group(), &message)) {
    WakeIfIdle();
    return;
  }
  std::vector<CollectiveResult> results;
  const Status status =
      SelfMailbox::Deliver(*operation->request, operation->group(), message, &results);
  if (!status.ok()) results.clear();
  operation->phase.store(Phase::kDone);
  Finish(operation, status, std::move(results));
}

// A send to a rank that has left: what it needs of that rank is nothing, so that it succeeds, as it
// would have a moment before.
bool Engine::SubmitToGone(const std::shared_ptr<Operation>& operation) {
  const CollectiveRequest& request = *operation->request;
  const Group& group = operation->group();
  if (request.collective != Collective::kSend || request.peer_rank < 0 ||
      request.peer_rank >= group.size()) {
    return false;
  }
  const std::int32_t destination = group.ranks[static_cast<std::size_t>(request.peer_rank)];
  const control::RankState state = channel_->state(destination);
  if (state == control::RankState::kAlive) return false;
  Status status;
  if (state == control::RankState::kDead) {
    status = Internal(DescribeOp(request) + ": " + DescribeRank(group, request.peer_rank) + " (" +
                      channel_->DescribeRank(destination) + ") died; nobody can receive this.");
  }
  operation->phase.store(Phase::kDone);
  Finish(operation, status, {});
  return true;
}

CellState Engine::Spin(const Operation& operation) const {
  CellState state = CellState::kOpen;
  if (!spins_) {
    for (int i = 0; i < kYieldsWhenCrowded && state == CellState::kOpen; ++i) {
      sched_yield();
      state = matching_->State(operation.ref);
    }
    return state;
  }
  const std::int64_t limit = MonotonicNanoseconds() + kSpinNanoseconds;
  do {
    for (int i = 0; i < 32 && state == CellState::kOpen; ++i) {
      RelaxProcessor();
      state = matching_->State(operation.ref);
    }
  } while (state == CellState::kOpen && MonotonicNanoseconds() < limit);
  return state;
}

void Engine::Park(const std::shared_ptr<Operation>& operation) {
  matching_->SetWaiting(operation->ref, Waiting::kParked);
  // Who completes the cell from here on rings; who did before is seen here.
  if (matching_->State(operation->ref) != CellState::kOpen) {
    Look(operation);
    return;
  }
  // Who leaves from here on finds the operation registered; who did before is seen here.
  FailIfSomeoneGone(operation);
  WakeIfIdle();
}

// Goes on with an operation whose cell has changed. Any thread; harmless when nothing has changed.
// The state is read before the phase: an operation that is not done then had its cell when the
// state was read.
void Engine::Look(const std::shared_ptr<Operation>& operation) {
  if (!operation->has_cell()) return;
  const CellState state = matching_->State(operation->ref);
  // In one order, a failed operation too: it may have a number, and takes its turn.
  if (state == CellState::kMatched || (state == CellState::kFailed && operation->in_one_order())) {
    Begin(operation);
  }
  if (operation->phase.load() == Phase::kOrdering) {
    if (order_queue_->Advance(operation)) Finish(operation, matching_->Failure(operation->ref), {});
    return;
  }
  if (state == CellState::kOpen || state == CellState::kMatched) return;
  if (operation->Claim(Phase::kWaiting, Phase::kDone)) {
    const Status failure = matching_->Failure(operation->ref);
    if (operation->request->collective == Collective::kReceive) {
      // What the sender has buffered under this match is for nobody.
      npu_transport_status reason;
      CopyStatus(failure, &reason);
      operation->route.functions->cancel(operation->route.group, operation->ref.match_id, &reason);
    }
    Finish(operation, failure, {});
  } else if (operation->phase.load() == Phase::kRunning) {
    npu_transport_status reason;
    CopyStatus(matching_->Failure(operation->ref), &reason);
    operation->route.functions->cancel(operation->route.group, operation->ref.match_id, &reason);
  }
}

void Engine::Begin(const std::shared_ptr<Operation>& operation) {
  if (operation->in_one_order()) {
    // Parked first, so that the announcement of the order rings.
    matching_->SetWaiting(operation->ref, Waiting::kParked);
    operation->Claim(Phase::kWaiting, Phase::kOrdering);
    return;  // Look goes on
  }
  if (operation->Claim(Phase::kWaiting, Phase::kStarting)) StartTransport(operation);
}

void Engine::StartInOrder(const std::shared_ptr<Operation>& operation) {
  if (matching_->State(operation->ref) == CellState::kFailed) {
    if (operation->Claim(Phase::kOrdering, Phase::kDone)) {
      Finish(operation, matching_->Failure(operation->ref), {});
    }
    return;
  }
  if (operation->Claim(Phase::kOrdering, Phase::kStarting)) StartTransport(operation);
}

void Engine::StartTransport(const std::shared_ptr<Operation>& operation) {
  PrepareTransportRequest(operation.get());
  operation->self = operation;
  npu_transport_status result;
  result.code = 0;
  result.message[0] = 0;
  operation->route.functions->start(operation->route.group, &operation->transport_request,
                                    &operation->transport_operation, &result);
  if (result.code != 0) {
    operation->self.reset();
    const Status failure = ToStatus(result);
    matching_->Fail(
        operation->ref,
        Status(failure.code(), DescribeOp(*operation->request) + ": " +
                                   DescribeRank(operation->group(), operation->group().rank) +
                                   " could not start it: " + failure.message()));
    operation->phase.store(Phase::kDone);
    Finish(operation, matching_->Failure(operation->ref), {});
    return;
  }
  if (!operation->Claim(Phase::kStarting, Phase::kRunning)) return;  // done already
  // A failure that came while the transport was starting was passed over by Look.
  if (matching_->State(operation->ref) == CellState::kFailed) Look(operation);
  WakeIfIdle();
}

void Engine::TransportDone(Operation* raw, const npu_transport_status& transport_status,
                           const npu_transport_result* results) {
  const std::shared_ptr<Operation> operation = std::move(raw->self);
  operation->phase.store(Phase::kDone);
  if (transport_status.code != 0) {
    // The first failure stands: where the cell has failed already, all ranks get that text.
    const Status failure = ToStatus(transport_status);
    if (failure.code() == StatusCode::kCancelled) AwaitFailure(*operation);
    matching_->Fail(
        operation->ref,
        Status(failure.code(), DescribeOp(*operation->request) + ": " +
                                   DescribeRank(operation->group(), operation->group().rank) +
                                   ": " + failure.message()));
    Finish(operation, matching_->Failure(operation->ref), {});
    return;
  }
  std::vector<CollectiveResult> converted;
  if (operation->request->collective != Collective::kSend) {
    converted.resize(operation->tensors.size());
    for (std::size_t i = 0; i < converted.size(); ++i) {
      converted[i].data = results[i].data;
      converted[i].count = static_cast<std::int64_t>(operation->tensors[i].result_count);
      if (results[i].release != nullptr) {
        const auto release = results[i].release;
        void* const context = results[i].release_context;
        converted[i].release = [release, context] { release(context); };
      }
    }
  }
  Finish(operation, Status::Ok(), std::move(converted));
}

// A transport that gives up because its counterpart on another rank did knows no reason; that
// rank's comm is about to post it. Waits for a moment, so that the text is the one that helps.
void Engine::AwaitFailure(const Operation& operation) const {
  const std::int64_t limit = MonotonicNanoseconds() + kPostNanoseconds;
  while (matching_->State(operation.ref) == CellState::kMatched && MonotonicNanoseconds() < limit) {
    sched_yield();
  }
}

// Fails the operation's cell on all ranks, and ends the operation here as far as it can be.
void Engine::Fail(const std::shared_ptr<Operation>& operation, const Status& failure) {
  if (operation->has_cell()) {
    matching_->Fail(operation->ref, failure);
    Look(operation);
    return;
  }
  if (!operation->Claim(Phase::kWaiting, Phase::kDone)) return;
  mailbox_.Forget(operation, *operation->request, operation->group());
  Finish(operation, failure, {});
}

// The caller has claimed kDone. The order matters: out of the table before the cell can be given to
// another operation, and departed before the callback, which may submit under the same key again.
void Engine::Finish(const std::shared_ptr<Operation>& operation, const Status& status,
                    std::vector<CollectiveResult> results) {
  if (operation->has_cell()) {
    {
      std::lock_guard<std::mutex> lock(in_flight_mutex_);
      by_cell_[operation->ref.cell].reset();
    }
    matching_->Depart(operation->ref);
  }
  if (!status.ok()) failed_.fetch_add(1, std::memory_order_relaxed);
  CollectiveCallback done = std::move(operation->done);
  operation->done = nullptr;
  done(status, std::move(results));
  unfinished_.fetch_sub(1);
}

void Engine::Register(const std::shared_ptr<Operation>& operation) {
  std::lock_guard<std::mutex> lock(in_flight_mutex_);
  by_cell_[operation->ref.cell] = operation;
  if (operation->ref.cell >= cells_seen_) cells_seen_ = operation->ref.cell + 1;
}

void Engine::WakeIfIdle() {
  if (idle_.load()) Ring();
}

std::vector<std::shared_ptr<Operation>> Engine::InFlight() {
  std::vector<std::shared_ptr<Operation>> operations = mailbox_.Waiting();
  std::lock_guard<std::mutex> lock(in_flight_mutex_);
  for (std::uint32_t i = 0; i < cells_seen_; ++i) {
    if (by_cell_[i] != nullptr) operations.push_back(by_cell_[i]);
  }
  return operations;
}

}  // namespace comm
}  // namespace npu_bridge
