// Hashes that all ranks must compute alike: group identities and the keys of the cell table.
#ifndef NPU_BRIDGE_CSRC_COMM_HASH_H_
#define NPU_BRIDGE_CSRC_COMM_HASH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace npu_bridge {
namespace comm {

// 64 bits of `size` bytes; another seed gives an independent hash.
std::uint64_t Hash(const void* data, std::size_t size, std::uint64_t seed);

// Mixes a number into a hash.
std::uint64_t HashCombine(std::uint64_t hash, std::uint64_t value);

// Name plus members in their order: groups of one name with different members never meet.
std::uint64_t GroupIdentity(const std::string& name, const std::vector<std::int32_t>& ranks);

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_HASH_H_
