#include "csrc/transport/registry.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace npu_bridge {
namespace {

constexpr const char* kEntryPoint = "npu_transport_interface";

struct Registry {
  std::mutex mutex;
  std::map<std::string, npu_transport_interface_function> built_in;
};

// Never destroyed: requests may still end while static destructors run.
Registry& TheRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

std::string KnownNames() {
  std::string names;
  for (const std::string& name : RegisteredTransports()) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names.empty() ? "none" : names;
}

std::string HowToName() {
  return "This build has: " + KnownNames() +
         ". Set NPU_BRIDGE_TRANSPORT to auto, or to the path of a transport library (with a '/').";
}

Status AskForInterface(const std::string& who, npu_transport_interface_function function,
                       const npu_transport_interface_v1** transport) {
  const npu_transport_interface_v1* found = function(NPU_TRANSPORT_INTERFACE_VERSION);
  const std::string wanted = std::to_string(NPU_TRANSPORT_INTERFACE_VERSION);
  if (found == nullptr) {
    return FailedPrecondition(who + " does not speak version " + wanted +
                              " of the transport interface. Rebuild it against "
                              "csrc/transport/transport.h of this npu_bridge.");
  }
  if (found->version != NPU_TRANSPORT_INTERFACE_VERSION) {
    return FailedPrecondition(
        who + " speaks version " + std::to_string(found->version) +
        " of the transport interface, this npu_bridge speaks version " + wanted +
        ". Rebuild it against csrc/transport/transport.h of this npu_bridge.");
  }
  // Everything up to and including `describe` has been there since version 1 began.
  if (found->struct_size < sizeof(npu_transport_interface_v1)) {
    return FailedPrecondition(
        who + " gives a transport interface of " + std::to_string(found->struct_size) +
        " bytes, expected at least " + std::to_string(sizeof(npu_transport_interface_v1)) +
        ". Rebuild it against csrc/transport/transport.h of this npu_bridge.");
  }
  if (found->open == nullptr || found->close == nullptr || found->create_group == nullptr ||
      found->destroy_group == nullptr || found->score == nullptr || found->start == nullptr ||
      found->cancel == nullptr || found->rank_gone == nullptr || found->describe == nullptr) {
    return FailedPrecondition(who + " leaves a function of its transport interface NULL.");
  }
  *transport = found;
  return Status::Ok();
}

// The library stays loaded for the life of the process: result memory may outlive every world.
Status LoadLibrary(const std::string& path, const npu_transport_interface_v1** transport) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return NotFound("cannot load the transport library '" + path +
                    "': " + (reason != nullptr ? reason : "no reason given") + ". " + HowToName());
  }
  void* symbol = dlsym(library, kEntryPoint);
  if (symbol == nullptr) {
    dlclose(library);
    return NotFound("the library '" + path + "' is no transport: it does not export the symbol " +
                    kEntryPoint + ". " + HowToName());
  }
  const Status status =
      AskForInterface("the transport library '" + path + "'",
                      reinterpret_cast<npu_transport_interface_function>(symbol), transport);
  if (!status.ok()) dlclose(library);
  return status;
}

}  // namespace

bool RegisterTransport(const char* name, npu_transport_interface_function function) {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.built_in[name] = function;
  return true;
}

Status FindTransport(const std::string& name_or_path,
                     const npu_transport_interface_v1** transport) {
  if (name_or_path.find('/') != std::string::npos) return LoadLibrary(name_or_path, transport);
  npu_transport_interface_function function = nullptr;
  {
    Registry& registry = TheRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    const auto found = registry.built_in.find(name_or_path);
    if (found != registry.built_in.end()) function = found->second;
  }
  if (function == nullptr) {
    return NotFound("there is no transport '" + name_or_path + "'. " + HowToName());
  }
  return AskForInterface("the transport '" + name_or_path + "'", function, transport);
}

std::vector<std::string> RegisteredTransports() {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& entry : registry.built_in) names.push_back(entry.first);
  return names;
}

}  // namespace npu_bridge
