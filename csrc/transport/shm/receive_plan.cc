#include "csrc/transport/shm/receive_plan.h"

#include <algorithm>

#include "csrc/transport/shm/operation.h"

namespace npu_bridge {
namespace shm {
namespace {

// Adds what `blocks` leave of [begin, end) to `gaps`. True when blocks overlap.
bool FindGaps(std::vector<ByteRange> blocks, std::uint64_t begin, std::uint64_t end,
              std::vector<ByteRange>* gaps) {
  std::sort(blocks.begin(), blocks.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  bool overlap = false;
  std::uint64_t covered = begin;
  for (const ByteRange& block : blocks) {
    if (block.begin > covered) gaps->push_back({covered, block.begin});
    overlap = overlap || block.begin < covered;
    covered = std::max(covered, block.end);
  }
  if (covered < end) gaps->push_back({covered, end});
  return overlap;
}

}  // namespace

ReceivePlan::ReceivePlan(const npu_transport_request& request, std::int32_t group_size) {
  const auto size = static_cast<std::size_t>(group_size);
  // The table lies in front like one more tensor.
  std::vector<std::uint64_t> parts = {request.tensor_count * size * sizeof(std::uint64_t)};
  for (std::uint32_t t = 0; t < request.tensor_count; ++t) {
    parts.push_back(request.tensors[t].result_count * request.tensors[t].element_size);
  }
  result_end = LayOut(parts, &result_offsets);
  result_offsets.erase(result_offsets.begin());

  bool is_empty = true;
  std::vector<std::uint64_t> received;
  for (std::uint32_t t = 0; t < request.tensor_count; ++t) {
    const npu_transport_tensor& tensor = request.tensors[t];
    const std::uint64_t element = tensor.element_size;
    const std::uint64_t offset = result_offsets[t];
    if (tensor.result_count > 0) is_empty = false;
    std::vector<ByteRange> blocks;
    for (std::size_t sender = 0; sender < size; ++sender) {
      const auto count = static_cast<std::uint64_t>(tensor.receive_counts[sender]);
      const auto place = static_cast<std::uint64_t>(tensor.receive_displacements[sender]);
      received.push_back(count * element);
      final_offsets.push_back(count > 0 ? offset + place * element : offset);
      if (count == 0) continue;
      blocks.push_back({final_offsets.back(), final_offsets.back() + count * element});
    }
    is_staged |= FindGaps(blocks, offset, offset + tensor.result_count * element, &gaps);
  }
  if (is_empty) return;
  write_offsets = final_offsets;
  block_bytes = result_end;
  if (!is_staged) return;
  block_bytes += LayOut(received, &write_offsets);
  for (std::uint64_t& write_offset : write_offsets) write_offset += result_end;
}

}  // namespace shm
}  // namespace npu_bridge
