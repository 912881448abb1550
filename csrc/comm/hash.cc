#include "csrc/comm/hash.h"

#include <cstring>

namespace npu_bridge {
namespace comm {
namespace {

// The finaliser of splitmix64: every bit of the input reaches every bit of the output.
std::uint64_t Mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9u;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

std::uint64_t HashCombine(std::uint64_t hash, std::uint64_t value) {
  return Mix(hash + 0x9e3779b97f4a7c15u + Mix(value));
}

std::uint64_t Hash(const void* data, std::size_t size, std::uint64_t seed) {
  const char* bytes = static_cast<const char*>(data);
  std::uint64_t hash = HashCombine(seed, size);
  while (size > 0) {
    const std::size_t part = size < 8 ? size : 8;
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, part);
    hash = HashCombine(hash, word);
    bytes += part;
    size -= part;
  }
  return hash;
}

std::uint64_t GroupIdentity(const std::string& name, const std::vector<std::int32_t>& ranks) {
  std::uint64_t hash = Hash(name.data(), name.size(), 0x67726f7570u);
  for (std::int32_t rank : ranks) hash = HashCombine(hash, static_cast<std::uint64_t>(rank));
  return HashCombine(hash, ranks.size());
}

}  // namespace comm
}  // namespace npu_bridge
