#include "csrc/common/log.h"

#include <unistd.h>

namespace npu_bridge {

void WriteLogLine(LogSeverity severity, const std::string& text) {
  std::string line = "npu-bridge: ";
  if (severity == LogSeverity::kWarning) line += "warning: ";
  if (severity == LogSeverity::kError) line += "error: ";
  line += text;
  line += '\n';
  // A closed stderr is nothing that the job could be told about.
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

}  // namespace npu_bridge
