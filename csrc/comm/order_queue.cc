#include "csrc/comm/order_queue.h"

#include "csrc/comm/engine.h"

namespace npu_bridge {
namespace comm {

bool OrderQueue::Advance(const std::shared_ptr<Operation>& operation) {
  const Group& group = operation->group();
  GroupOrder* order = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    order = &orders_[group.identity];
    if (operation->queued_in_order) return false;
    // The state is read first: a failed cell gets no number any more.
    const bool failed = matching_->State(operation->ref) == CellState::kFailed;
    std::uint64_t number = matching_->Order(operation->ref);
    if (number == 0 && !failed && group.rank == 0 &&
        matching_->AnnounceOrder(operation->ref, order->next_to_announce)) {
      number = order->next_to_announce++;
    }
    if (number == 0) return failed && operation->Claim(Phase::kOrdering, Phase::kDone);
    operation->queued_in_order = true;
    order->ready[number] = operation;
  }
  Drain(order);
  return false;
}

void OrderQueue::Drain(GroupOrder* order) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (order->draining) return;
  order->draining = true;
  for (;;) {
    const auto found = order->ready.find(order->next_to_start);
    if (found == order->ready.end()) break;
    const std::shared_ptr<Operation> operation = std::move(found->second);
    order->ready.erase(found);
    lock.unlock();
    // A failed one takes its turn too: the other ranks count it.
    operation->engine->StartInOrder(operation);
    lock.lock();
    ++order->next_to_start;
  }
  order->draining = false;
}

}  // namespace comm
}  // namespace npu_bridge
