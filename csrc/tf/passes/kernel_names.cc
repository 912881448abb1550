#include "csrc/tf/passes/kernel_names.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <functional>

namespace npu_bridge {

std::string NameOfKernel(const std::string& name, const std::string& what) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64,
                static_cast<std::uint64_t>(std::hash<std::string>()(what)));
  return name + "_" + digits;
}

}  // namespace npu_bridge
