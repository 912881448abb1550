#include "csrc/common/fusion_hooks.h"

#include <memory>
#include <mutex>
#include <utility>

namespace npu_bridge {
namespace {

struct Registry {
  std::mutex mutex;  // guards hooks
  std::shared_ptr<const FusionHooks> hooks = std::make_shared<FusionHooks>();
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

// A hook may wait for Python's lock: it is called without ours.
std::shared_ptr<const FusionHooks> Hooks() {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.hooks;
}

}  // namespace

void SetFusionHooks(FusionHooks hooks) {
  auto made = std::make_shared<const FusionHooks>(std::move(hooks));
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.hooks = std::move(made);
}

Status ReadFusionSettings(FusionSettings* settings) {
  *settings = FusionSettings();
  const std::shared_ptr<const FusionHooks> hooks = Hooks();
  return hooks->settings ? hooks->settings(settings) : Status();
}

Status ReportFusion(const FusionReport& report) {
  const std::shared_ptr<const FusionHooks> hooks = Hooks();
  return hooks->report ? hooks->report(report) : Status();
}

}  // namespace npu_bridge
