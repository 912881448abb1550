#include "csrc/comm/messages.h"

#include <algorithm>
#include <map>

namespace npu_bridge {
namespace comm {
namespace {

// Beyond this many numbers, neighbours are told as a range.
constexpr std::size_t kMostNumbers = 16;
// Beyond this many different values, the rest is counted.
constexpr std::size_t kMostSides = 6;

}  // namespace

std::string DescribeOp(Collective collective, const std::string& node_name,
                       const std::string& group) {
  return std::string(CollectiveName(collective)) + " '" + node_name + "' in group " + group;
}

std::string DescribeOp(const CollectiveRequest& request) {
  return DescribeOp(request.collective, request.node_name.empty() ? request.tag : request.node_name,
                    request.group);
}

std::string JoinNumbers(const std::vector<std::int32_t>& numbers) {
  std::string text;
  const bool ranges = numbers.size() > kMostNumbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[i]);
    if (!ranges) continue;
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last > i + 1) {
      text += "-" + std::to_string(numbers[last]);
      i = last;
    }
  }
  return text;
}

std::string DescribeRanks(const Group& group, const std::vector<std::int32_t>& members) {
  const char* noun = members.size() == 1 ? "rank " : "ranks ";
  std::string text = noun + JoinNumbers(members);
  bool same = true;
  for (std::size_t i = 0; i < group.ranks.size() && same; ++i) {
    same = group.ranks[i] == static_cast<std::int32_t>(i);
  }
  if (same) return text;
  std::vector<std::int32_t> world;
  for (std::int32_t member : members)
    world.push_back(group.ranks[static_cast<std::size_t>(member)]);
  return text + " of the group (world " + noun + JoinNumbers(world) + ")";
}

std::string DescribeRank(const Group& group, std::int32_t member) {
  return DescribeRanks(group, {member});
}

std::string DescribeShape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::string DescribeSides(const Group& group, const std::vector<std::string>& values,
                          const std::string& verb_for_one, const std::string& verb_for_several) {
  std::map<std::string, std::vector<std::int32_t>> by_value;
  for (std::size_t i = 0; i < values.size(); ++i) {
    by_value[values[i]].push_back(static_cast<std::int32_t>(i));
  }
  std::vector<std::pair<std::vector<std::int32_t>, std::string>> sides;
  for (auto& entry : by_value) sides.emplace_back(entry.second, entry.first);
  std::sort(sides.begin(), sides.end(), [](const auto& a, const auto& b) {
    return a.first.size() != b.first.size() ? a.first.size() < b.first.size() : a.first < b.first;
  });
  std::string text;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (i == kMostSides) {
      text += ", and " + Count(static_cast<std::int64_t>(sides.size() - i), "other value");
      break;
    }
    if (i > 0) text += ", ";
    const std::string& verb = sides[i].first.size() == 1 ? verb_for_one : verb_for_several;
    text += DescribeRanks(group, sides[i].first) + " " + verb + " " + sides[i].second;
  }
  return text;
}

std::string Count(std::int64_t count, const char* singular) {
  return std::to_string(count) + " " + singular + (count == 1 ? "" : "s");
}

}  // namespace comm
}  // namespace npu_bridge
