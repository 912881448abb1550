#include "csrc/comm/control/process_events.h"

#include <utility>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/comm/control/process_watcher.h"

namespace npu_bridge {
namespace control {

int SignalDescriptor() { return TheProcessPipe().write_end; }

int AddInterruptHandler(std::function<void(const std::string& signal_name)> handler) {
  ProcessWatcher* watcher = nullptr;
  if (!ProcessWatcher::Get(&watcher).ok()) return 0;
  return watcher->AddInterruptHandler(std::move(handler));
}

void RemoveInterruptHandler(int token) {
  ProcessWatcher* watcher = nullptr;
  if (ProcessWatcher::Get(&watcher).ok()) watcher->Remove(token);
}

}  // namespace control
}  // namespace npu_bridge
