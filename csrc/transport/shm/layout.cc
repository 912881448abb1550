#include "csrc/transport/shm/layout.h"

#include <algorithm>

namespace npu_bridge {
namespace shm {
namespace {

std::uint64_t Aligned(std::uint64_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace

Layout::Layout(std::int32_t host_size_in, std::uint32_t slot_count_in)
    : host_size(host_size_in), slot_count(slot_count_in) {
  const std::uint64_t members = static_cast<std::uint64_t>(host_size);
  in_flight_words = Aligned((std::uint64_t{slot_count} + 63) / 64 * 8) / 8;
  ranks = Aligned(sizeof(Header));
  in_flight = ranks + members * sizeof(RankRecord);
  stacks = in_flight + members * in_flight_words * 8;
  blocks = stacks + 2 * kSizeClassCount * sizeof(FreeStack);
  // Block numbers start at 1.
  operations = blocks + (std::uint64_t{kMaxBlocks} + 1) * sizeof(BlockRecord);
  // Send and receive use two cells, also on a host with one rank.
  operation_stride =
      sizeof(OperationHeader) + std::max<std::uint64_t>(members, 2) * sizeof(MemberCell);
  bytes = operations + std::uint64_t{slot_count} * operation_stride;
}

}  // namespace shm
}  // namespace npu_bridge
