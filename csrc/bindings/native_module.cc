// npu_device._core._native: the world of this process, for Python.
//
// Every function that may wait gives up the GIL, so that other threads, among them those of ours
// that call the configuration provider, go on.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/bindings/configuration_provider.h"
#include "csrc/bindings/fusion_hooks.h"
#include "csrc/bindings/session_options_hook.h"
#include "csrc/comm/control/process_events.h"
#include "csrc/comm/world.h"
#include "csrc/common/memory_available.h"

namespace npu_bridge {
namespace {

namespace py = pybind11;

// Raises for an error. With the GIL. Ctrl-C ends waiting calls with an error, but what Python is
// to see then is the KeyboardInterrupt that its own handler raises.
void Check(const Status& status) {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  if (status.ok()) return;
  if (status.code() == StatusCode::kInvalidArgument) throw py::value_error(status.message());
  throw std::runtime_error(status.message());
}

// Runs `action` without the GIL.
template <typename Action>
Status Unlocked(Action action) {
  py::gil_scoped_release release;
  return action();
}

void Start() {
  Check(Unlocked([] { return ProcessWorld().Start(); }));
}

void Shutdown() {
  Check(Unlocked([] {
    ProcessWorld().Shutdown();
    return Status();
  }));
}

std::int32_t WorldRank() {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  Check(Unlocked([&] { return ProcessWorld().RankAndSize(&rank, &size); }));
  return rank;
}

std::int32_t WorldSize() {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  Check(Unlocked([&] { return ProcessWorld().RankAndSize(&rank, &size); }));
  return size;
}

std::vector<std::int32_t> LocalRanks() {
  std::vector<std::int32_t> ranks;
  Check(Unlocked([&] { return ProcessWorld().HostRanks(&ranks); }));
  return ranks;
}

void CreateGroup(const std::string& name, const std::vector<std::int32_t>& ranks) {
  Check(Unlocked([&] { return ProcessWorld().CreateGroup(name, ranks); }));
}

void DestroyGroup(const std::string& name) {
  Check(Unlocked([&] { return ProcessWorld().DestroyGroup(name); }));
}

std::vector<std::int32_t> GroupRanks(const std::string& name) {
  std::vector<std::int32_t> ranks;
  const Status status = Unlocked([&] { return ProcessWorld().GroupRanks(name, &ranks); });
  if (status.code() == StatusCode::kNotFound) throw py::key_error(status.message());
  Check(status);
  return ranks;
}

std::vector<std::string> GroupNames() {
  py::gil_scoped_release release;
  return ProcessWorld().GroupNames();
}

bool Started() {
  py::gil_scoped_release release;
  return ProcessWorld().started();
}

void CancelPending(const std::string& reason) {
  py::gil_scoped_release release;
  ProcessWorld().CancelAll(reason);
}

std::string Describe() {
  py::gil_scoped_release release;
  return ProcessWorld().Describe();
}

int SignalDescriptor() {
  py::gil_scoped_release release;
  return control::SignalDescriptor();
}

py::dict BuildInfo() {
  py::dict info;
  info["tensorflow_version"] = NPU_BRIDGE_TF_VERSION;
  info["cxx11_abi"] = NPU_BRIDGE_CXX11_ABI;
  info["compiler"] = NPU_BRIDGE_COMPILER;
  info["cxx_standard"] = NPU_BRIDGE_TF_CXX_STANDARD;
  return info;
}

}  // namespace
}  // namespace npu_bridge

PYBIND11_MODULE(_native, module) {
  using namespace npu_bridge;  // NOLINT: the functions above, in a function of our own
  module.doc() = "The ranks of the job, as this process sees them.";
  module.def("set_configuration_provider", &SetPythonConfigurationProvider, py::arg("provider"),
             "provider() -> dict describes the job: rank, size, identity, host_ranks or "
             "rank_locations, settings, and for CM_* unnumbered, device, worker_address, "
             "chief_address, chief_device. Called from any thread, once each time ranks meet.");
  module.def("set_fusion_hooks", &SetPythonFusionHooks, py::arg("settings"), py::arg("report"),
             "settings() -> dict is asked, and report(dict) told, for each graph with collectives "
             "that is compiled.");
  module.def("set_session_options_hook", &SetPythonSessionOptionsHook, py::arg("record"),
             "record(list of (name, kind, value)) is told what a session passes to NpuOptimizer.");
  module.def("start", &Start, "Meets the other ranks; returns when all are there.");
  module.def("shutdown", &Shutdown, "Leaves the job; pending collectives fail.");
  module.def("started", &Started);
  module.def("world_rank", &WorldRank, "Needs no peer, except where CM_* numbers the ranks.");
  module.def("world_size", &WorldSize);
  module.def("local_ranks", &LocalRanks, "World ranks that met on this host. Starts the world.");
  module.def("create_group", &CreateGroup, py::arg("name"), py::arg("ranks"),
             "Local knowledge: only members call it, and nothing is sent.");
  module.def("destroy_group", &DestroyGroup, py::arg("name"));
  module.def("group_ranks", &GroupRanks, py::arg("name"),
             "World ranks in group order. KeyError when there is no such group.");
  module.def("group_names", &GroupNames);
  module.def("cancel_pending", &CancelPending, py::arg("reason"));
  module.def("signal_descriptor", &SignalDescriptor,
             "The descriptor to give to signal.set_wakeup_fd.");
  module.def("describe", &Describe, "Counters of transport and matching, name=value lines.");
  module.def("available_memory_bytes", &npu_bridge::AvailableMemoryBytes);
  module.def("build_info", &BuildInfo);
}
