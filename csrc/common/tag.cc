#include "csrc/common/tag.h"

#include <cstddef>

namespace npu_bridge {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The run of digits at `position`, without leading zeros.
std::string NumberAt(const std::string& name, std::size_t* position) {
  std::size_t end = *position;
  while (end < name.size() && IsDigit(name[end])) ++end;
  std::size_t begin = *position;
  while (begin + 1 < end && name[begin] == '0') ++begin;
  *position = end;
  return name.substr(begin, end - begin);
}

bool IsLoweringCounter(const std::string& name, std::size_t begin, std::size_t end) {
  if (end - begin < 2 || name[begin] != '_') return false;
  for (std::size_t i = begin + 1; i < end; ++i) {
    if (!IsDigit(name[i])) return false;
  }
  return true;
}

}  // namespace

std::string StripLoweringCounters(const std::string& name) {
  std::string stripped;
  std::size_t begin = 0;
  while (true) {
    std::size_t end = name.find('/', begin);
    if (end == std::string::npos) end = name.size();
    if (!IsLoweringCounter(name, begin, end)) {
      if (begin > 0 && !stripped.empty()) stripped += '/';
      stripped.append(name, begin, end - begin);
    }
    if (end == name.size()) break;
    begin = end + 1;
  }
  // A name made of counters only has nothing better to offer than itself.
  return stripped.empty() ? name : stripped;
}

bool NaturalLess(const std::string& a, const std::string& b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      const std::string first = NumberAt(a, &i);
      const std::string second = NumberAt(b, &j);
      if (first.size() != second.size()) return first.size() < second.size();
      if (first != second) return first < second;
    } else if (a[i] != b[j]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    } else {
      ++i;
      ++j;
    }
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return a < b;
}

}  // namespace npu_bridge
