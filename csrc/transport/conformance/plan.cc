#include "csrc/transport/conformance/plan.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace npu_bridge {
namespace conformance {
namespace {

// Slots of collectives; sends and receives have those above. Cases meet at a barrier before numbers
// that are this far apart are in flight together.
constexpr std::uint64_t kCollectiveSlots = 4096;
constexpr std::uint64_t kPointToPointSlots = 60000;
constexpr std::size_t kMisalignment = 1;  // elements: inputs are not aligned to cache lines

// What rank `from` sends to rank `to`, in elements; differs for every pair, sometimes nothing.
std::int64_t CountBetween(std::uint64_t count, std::int32_t from, std::int32_t to) {
  if ((from + 2 * to) % 3 == 2) return 0;
  return static_cast<std::int64_t>(count + static_cast<std::uint64_t>((from * 3 + to) % 5));
}

// Where the block of sender `from` begins in the result of rank `to`.
std::int64_t ReceivePlace(const Description& description, std::uint64_t count, std::int32_t from,
                          std::int32_t to) {
  std::int64_t place = 0;
  for (std::int32_t earlier = 0; earlier < from; ++earlier) {
    const std::int64_t size = CountBetween(count, earlier, to);
    place += description.has_overlaps ? size / 2 : size;
    if (description.has_gaps) place += 3;
  }
  return place + (description.has_gaps ? 2 : 0);
}

}  // namespace

std::string Description::Name() const {
  std::string name = std::string(CollectiveName(collective)) + " " + ReductionName(reduction);
  for (std::size_t t = 0; t < types.size(); ++t) {
    name += std::string(" ") + DataTypeName(types[t]) + "[" + std::to_string(counts[t]) + "]";
  }
  if (has_overlaps) name += " overlapping";
  if (has_gaps) name += " with gaps";
  return name + " root " + std::to_string(root) + " (call " + std::to_string(number) + ")";
}

PlannedCall::PlannedCall(const Description& description, std::int32_t rank, std::int32_t size)
    : description_(description) {
  call_.collective = description.collective;
  call_.reduction = description.reduction;
  call_.root = description.root;
  call_.match_id = description.number;
  call_.match_slot = static_cast<std::uint32_t>(description.number % kCollectiveSlots);
  if (description.collective == Collective::kSend) {
    call_.peer = (rank + description.peer_shift) % size;
    // Every sender of the ring has a request of its own.
    call_.match_id = description.number * 64 + static_cast<std::uint64_t>(rank);
  } else if (description.collective == Collective::kReceive) {
    call_.peer = (rank - description.peer_shift % size + size) % size;
    call_.match_id = description.number * 64 + static_cast<std::uint64_t>(call_.peer);
  }
  if (IsPointToPoint(description.collective)) {
    call_.match_slot =
        static_cast<std::uint32_t>(kCollectiveSlots + call_.match_id % kPointToPointSlots);
  }
  for (std::size_t t = 0; t < description.types.size(); ++t) PlanTensor(t, rank, size);
}

Bytes PlannedCall::Input(std::size_t t, std::int32_t rank, std::uint64_t count,
                         std::uint64_t begin) const {
  return MakeInput(description_.types[t], count,
                   description_.number * 977 + t * 131 + static_cast<std::uint64_t>(rank), begin);
}

void PlannedCall::PlanTensor(std::size_t t, std::int32_t rank, std::int32_t size) {
  const DataType type = description_.types[t];
  const std::uint64_t element = DataTypeSize(type);
  const std::uint64_t count = description_.counts[t];
  const auto ranks = static_cast<std::uint64_t>(size);
  CallTensor tensor;
  tensor.type = type;
  tensor.input_count = count;
  tensor.result_count = count;
  Bytes expected;
  std::vector<Bytes> all;
  switch (description_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      for (std::int32_t r = 0; r < size; ++r) all.push_back(Input(t, r, count));
      if (description_.collective == Collective::kReduce && rank != description_.root) {
        expected = all[static_cast<std::size_t>(rank)];
      } else {
        expected = ReferenceReduce(type, description_.reduction, all, count);
      }
      break;
    case Collective::kReduceScatter: {
      tensor.input_count = count * ranks;
      for (std::int32_t r = 0; r < size; ++r) {
        all.push_back(Input(t, r, count, static_cast<std::uint64_t>(rank) * count));
      }
      expected = ReferenceReduce(type, description_.reduction, all, count);
      break;
    }
    case Collective::kAllGather:
      tensor.result_count = count * ranks;
      for (std::int32_t r = 0; r < size; ++r) {
        const Bytes part = Input(t, r, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      break;
    case Collective::kBroadcast:
      expected = Input(t, description_.root, count);
      break;
    case Collective::kAllToAllV:
    case Collective::kAllToAllVC:
      PlanAllToAll(t, rank, size, &tensor);
      expected = expected_.back();
      expected_.pop_back();
      break;
    case Collective::kSend:
      tensor.result_count = 0;
      break;
    case Collective::kReceive:
      tensor.input_count = 0;
      expected = Input(t, call_.peer, count);
      break;
  }
  Bytes input = Input(t, rank, tensor.input_count);
  input.insert(input.begin(), kMisalignment * element, 0);
  inputs_.push_back(std::move(input));
  tensor.input = inputs_.back().data() + kMisalignment * element;
  expected_.push_back(std::move(expected));
  call_.tensors.push_back(std::move(tensor));
}

void PlannedCall::PlanAllToAll(std::size_t t, std::int32_t rank, std::int32_t size,
                               CallTensor* tensor) {
  const std::uint64_t element = DataTypeSize(description_.types[t]);
  const std::uint64_t count = description_.counts[t];
  tensor->input_count = count * static_cast<std::uint64_t>(size) + 8;
  tensor->result_count = 0;
  for (std::int32_t peer = 0; peer < size; ++peer) {
    tensor->send_counts.push_back(CountBetween(count, rank, peer));
    tensor->send_displacements.push_back(peer * static_cast<std::int64_t>(count) / 2);
    tensor->receive_counts.push_back(CountBetween(count, peer, rank));
    tensor->receive_displacements.push_back(ReceivePlace(description_, count, peer, rank));
    const auto end = static_cast<std::uint64_t>(tensor->receive_counts.back() +
                                                tensor->receive_displacements.back());
    tensor->result_count = std::max(tensor->result_count, end);
  }
  Bytes expected(tensor->result_count * element, 0);
  for (std::int32_t peer = 0; peer < size; ++peer) {
    const auto place =
        static_cast<std::uint64_t>(tensor->receive_displacements[static_cast<std::size_t>(peer)]);
    const auto source = static_cast<std::uint64_t>(rank * static_cast<std::int64_t>(count) / 2);
    const auto length =
        static_cast<std::uint64_t>(tensor->receive_counts[static_cast<std::size_t>(peer)]);
    if (length == 0) continue;
    const Bytes from = Input(t, peer, length, source);
    std::memcpy(expected.data() + place * element, from.data(), from.size());
  }
  expected_.push_back(std::move(expected));
}

void PlannedCall::Check(Rank& rank) {
  if (rank.ExpectOk(call_.Wait(), description_.Name())) CheckResults(rank);
}

void PlannedCall::CheckResults(Rank& rank) {
  if (description_.collective == Collective::kSend) return;
  for (std::size_t t = 0; t < expected_.size(); ++t) {
    const std::string difference = Difference(description_.types[t], call_.data(t), expected_[t],
                                              IsReducing(description_.collective));
    if (!difference.empty()) {
      rank.Fail(description_.Name() + ": result " + std::to_string(t) + ": " + difference);
    }
  }
}

void RunAll(Rank& rank, const Group& group, const std::vector<Description>& descriptions,
            std::uint64_t order_seed) {
  std::vector<std::unique_ptr<PlannedCall>> calls;
  for (const Description& description : descriptions) {
    calls.push_back(std::make_unique<PlannedCall>(description, group.rank, group.size));
  }
  std::vector<std::size_t> order(calls.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (order_seed != 0) {
    std::mt19937_64 random(order_seed * 64 + static_cast<std::uint64_t>(group.rank));
    std::shuffle(order.begin(), order.end(), random);
  }
  for (const std::size_t i : order) calls[i]->Start(group);
  for (const auto& call : calls) call->Check(rank);
}

}  // namespace conformance
}  // namespace npu_bridge
