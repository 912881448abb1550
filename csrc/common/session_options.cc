#include "csrc/common/session_options.h"

#include <memory>
#include <mutex>
#include <utility>

namespace npu_bridge {
namespace {

struct HookHolder {
  std::mutex mutex;  // guards hook
  std::shared_ptr<const SessionOptionsHook> hook;
};

HookHolder& TheHolder() {
  static auto* const holder = new HookHolder;
  return *holder;
}

}  // namespace

void SetSessionOptionsHook(SessionOptionsHook hook) {
  auto made = std::make_shared<const SessionOptionsHook>(std::move(hook));
  HookHolder& holder = TheHolder();
  std::lock_guard<std::mutex> lock(holder.mutex);
  holder.hook = std::move(made);
}

void ReportSessionOptions(const std::vector<SessionOption>& options) {
  std::shared_ptr<const SessionOptionsHook> hook;
  {
    // The hook may wait for Python's lock: it is called without ours.
    HookHolder& holder = TheHolder();
    std::lock_guard<std::mutex> lock(holder.mutex);
    hook = holder.hook;
  }
  if (hook != nullptr && *hook) (*hook)(options);
}

}  // namespace npu_bridge
