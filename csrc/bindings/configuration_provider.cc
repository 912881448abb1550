#include "csrc/bindings/configuration_provider.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "csrc/bindings/dict_reader.h"
#include "csrc/bindings/interpreter.h"
#include "csrc/comm/world.h"

namespace npu_bridge {
namespace {

namespace py = pybind11;

// Guarded by the GIL. Never destroyed: a world may start after the interpreter has ended.
py::object& Provider() {
  static py::object* const provider = new py::object;
  return *provider;
}

void ReadSettings(const py::dict& values, Settings* settings) {
  DictReader reader("the configuration's 'settings'", values);
  reader.Read("connect_timeout_s", &settings->connect_timeout_s);
  reader.Read("exec_timeout_s", &settings->exec_timeout_s);
  reader.Read("mismatch_timeout_s", &settings->mismatch_timeout_s);
  reader.Read("stall_warn_s", &settings->stall_warn_s);
  reader.Read("slow_start_s", &settings->slow_start_s);
  reader.Read("buffer_size_mb", &settings->buffer_size_mb);
  reader.Read("pool_limit_mb", &settings->pool_limit_mb);
  reader.Read("transport", &settings->transport);
  reader.RefuseUnknown();
}

// What the error says of ranks that do not come to this host, where only their places are known.
std::vector<std::string> LocationsFromHostRanks(const std::vector<std::int32_t>& host_ranks,
                                                std::int32_t size) {
  std::vector<std::string> locations(static_cast<std::size_t>(size),
                                     "on another host, by the rank table");
  for (std::int32_t rank : host_ranks) {
    if (rank >= 0 && rank < size) locations[static_cast<std::size_t>(rank)].clear();
  }
  return locations;
}

void ReadConfiguration(const py::dict& values, ClusterDescription* cluster, Settings* settings) {
  DictReader reader("the configuration", values);
  reader.Require("rank", &cluster->rank);
  reader.Require("size", &cluster->size);
  reader.Require("identity", &cluster->identity);
  reader.Read("unnumbered", &cluster->unnumbered);
  reader.Read("device", &cluster->device);
  reader.Read("worker_address", &cluster->worker_address);
  reader.Read("chief_address", &cluster->chief_address);
  reader.Read("chief_device", &cluster->chief_device);
  std::vector<std::int32_t> host_ranks;
  reader.Read("host_ranks", &host_ranks);
  reader.Read("rank_locations", &cluster->rank_locations);
  if (cluster->rank_locations.empty() && !host_ranks.empty()) {
    cluster->rank_locations = LocationsFromHostRanks(host_ranks, cluster->size);
  }
  py::dict setting_values;
  reader.Read("settings", &setting_values);
  ReadSettings(setting_values, settings);
  reader.RefuseUnknown();
}

// The exception's own text, without the traceback that what() adds.
Status FromException(const py::error_already_set& error) {
  const std::string text = py::str(error.value());
  if (error.matches(PyExc_ValueError)) return InvalidArgument(text);
  if (error.matches(PyExc_KeyboardInterrupt)) return Cancelled("interrupted (SIGINT)");
  return Internal("the job's description could not be read: " +
                  std::string(py::str(error.type().attr("__name__"))) + ": " + text);
}

// With the GIL.
Status CallProvider(ClusterDescription* cluster, Settings* settings) {
  if (!Provider()) {
    return FailedPrecondition(
        "the job's description is not known: import npu_bridge or npu_device before ops run.");
  }
  try {
    const py::object values = Provider()();
    if (!py::isinstance<py::dict>(values)) {
      return Internal("the function that describes the job returned " +
                      std::string(py::str(py::repr(values))) + " instead of a dict.");
    }
    ReadConfiguration(values.cast<py::dict>(), cluster, settings);
    return Status();
  } catch (const py::error_already_set& error) {
    return FromException(error);
  } catch (const std::exception& error) {  // what DictReader throws
    return Internal(error.what());
  }
}

Status Configure(ClusterDescription* cluster, Settings* settings) {
  Status status = FailedPrecondition("Python is ending: no collective can begin any more.");
  RunWithPython([&] { status = CallProvider(cluster, settings); });
  return status;
}

}  // namespace

void SetPythonConfigurationProvider(py::function provider) {
  const bool first = !Provider();
  Provider() = std::move(provider);
  if (!first) return;
  WatchInterpreterEnd();
  // World members must not hold the GIL while they wait for a thread that wants it.
  py::gil_scoped_release release;
  SetProcessConfigurationProvider(Configure);
}

}  // namespace npu_bridge
