#include "csrc/comm/deadlock_text.h"

#include <algorithm>

#include "csrc/comm/messages.h"

namespace npu_bridge {
namespace comm {
namespace {

std::string DescribePlace(const Wait& wait) {
  std::string text = " in step " + std::to_string(wait.step);
  if (wait.in_loop) text += ", iteration " + std::to_string(wait.iteration) + " of a loop";
  return text;
}

std::string DescribeWaits(const WaitsOfRank& waits, bool with_places) {
  constexpr std::size_t kMostListed = 3;
  std::vector<std::string> ops;
  for (const Wait& wait : waits) {
    ops.push_back(wait.op.Describe() + (with_places ? DescribePlace(wait) : ""));
  }
  std::sort(ops.begin(), ops.end());
  std::string text;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i == kMostListed) {
      return text + " and " + Count(static_cast<std::int64_t>(ops.size() - i), "more op");
    }
    text += (i > 0 ? " and " : "") + ops[i];
  }
  return text;
}

bool SameTensors(const Fingerprint& a, const Fingerprint& b) {
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const Fingerprint::Tensor& one, const Fingerprint::Tensor& other) {
                      return one.type == other.type && one.shape == other.shape;
                    });
}

// Whether ranks wait in one op, in different steps or iterations.
bool DifferInPlace(const std::vector<WaitsOfRank>& by_rank) {
  for (const WaitsOfRank& waits : by_rank) {
    for (const Wait& a : by_rank.front()) {
      for (const Wait& b : waits) {
        if (a.op.collective == b.op.collective && a.op.tag == b.op.tag &&
            (a.step != b.step || a.iteration != b.iteration)) {
          return true;
        }
      }
    }
  }
  return false;
}

// The first pair of waits of different ranks that is one op under two names; empty where none is.
std::string DescribeOuterScopes(const std::vector<WaitsOfRank>& by_rank) {
  for (const WaitsOfRank& waits : by_rank) {
    for (const Wait& a : by_rank.front()) {
      for (const Wait& b : waits) {
        if (a.op.collective != b.op.collective || !SameTensors(a.op, b.op) ||
            !DifferInOuterScope(a.op.tag, b.op.tag)) {
          continue;
        }
        return " The names '" + a.op.tag + "' and '" + b.op.tag +
               "' differ only in an outer scope: build the op inside the same scopes on every "
               "rank.";
      }
    }
  }
  return "";
}

bool AnyFused(const std::vector<WaitsOfRank>& by_rank) {
  for (const WaitsOfRank& waits : by_rank) {
    for (const Wait& wait : waits) {
      if (!wait.op.members.empty()) return true;
    }
  }
  return false;
}

}  // namespace

bool DifferInOuterScope(const std::string& a, const std::string& b) {
  if (a == b) return false;
  const std::string& longer = a.size() < b.size() ? b : a;
  const std::string& shorter = a.size() < b.size() ? a : b;
  const auto ends_with = [](const std::string& text, const std::string& end) {
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
  };
  if (ends_with(longer, "/" + shorter)) return true;
  const std::size_t first = a.find('/');
  const std::size_t second = b.find('/');
  // One common component says little: TensorFlow gives it to every op of a kind.
  return first != std::string::npos && second != std::string::npos &&
         a.substr(first) == b.substr(second) && a.find('/', first + 1) != std::string::npos;
}

std::string DeadlockText(const Group& group, const std::vector<WaitsOfRank>& by_rank,
                         const std::string& limit) {
  const bool with_places = DifferInPlace(by_rank);
  std::vector<std::string> values;
  for (const WaitsOfRank& waits : by_rank) values.push_back(DescribeWaits(waits, with_places));
  std::string text =
      "Mismatch in group " + group.name +
      ": every rank waits, in ops that cannot pair, and nothing has moved for " + limit +
      " (NPU_BRIDGE_MISMATCH_TIMEOUT): " + DescribeSides(group, values, "waits in", "wait in") +
      ".";
  if (with_places) {
    text += " Ranks have run different numbers of steps, or of iterations (iterations_per_loop).";
  }
  text += DescribeOuterScopes(by_rank);
  if (AnyFused(by_rank)) {
    text +=
        " Where one of these is a fused op and a rank needs something between its members, "
        "pass fusion=0 to them.";
  }
  return text + " All ranks must run the same collectives, under the same names.";
}

}  // namespace comm
}  // namespace npu_bridge
