// Lines for the person who runs the job, on stderr.
#ifndef NPU_BRIDGE_CSRC_COMMON_LOG_H_
#define NPU_BRIDGE_CSRC_COMMON_LOG_H_

#include <string>

namespace npu_bridge {

enum class LogSeverity : int {
  kInfo = 0,
  kWarning = 1,
  kError = 2,
};

// Writes one line with one system call, so that lines of several ranks on one terminal stay whole.
void WriteLogLine(LogSeverity severity, const std::string& text);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_LOG_H_
