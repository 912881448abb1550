#include "csrc/bindings/configuration_provider.h"

#include <pybind11/stl.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "csrc/comm/world.h"

namespace npu_bridge {
namespace {

namespace py = pybind11;

// Lets threads that Python did not make call into it, and keeps them out once the interpreter ends:
// a thread that asks for the GIL then is ended by Python in the middle of our C++ frames.
class Interpreter {
 public:
  // False when it is too late. True must be followed by Leave.
  bool Enter() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return false;
    ++inside_;
    return true;
  }

  void Leave() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--inside_ == 0) left_.notify_all();
  }

  // Called by Python's atexit, with the GIL, which the threads inside need to get out.
  void Close() {
    py::gil_scoped_release release;
    std::unique_lock<std::mutex> lock(mutex_);
    closed_ = true;
    left_.wait(lock, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  int inside_ = 0;
  bool closed_ = false;
};

// Neither is ever destroyed: threads may still come after the interpreter and static destructors.
Interpreter& TheInterpreter() {
  static Interpreter* const interpreter = new Interpreter;
  return *interpreter;
}

// Guarded by the GIL.
py::object& Provider() {
  static py::object* const provider = new py::object;
  return *provider;
}

// Reads a dict by keys, and knows which were asked for.
class Reader {
 public:
  Reader(const char* what, const py::dict& values) : what_(what), values_(values) {}

  // Leaves *value where the key is absent or None.
  template <typename T>
  void Read(const char* key, T* value) {
    known_.insert(key);
    if (!values_.contains(key) || values_[key].is_none()) return;
    try {
      *value = values_[key].cast<T>();
    } catch (const py::cast_error&) {
      throw py::type_error(what_ + " has '" + key + "': " + Repr(values_[key]) +
                           ", which is of another type than expected.");
    }
  }

  template <typename T>
  void Require(const char* key, T* value) {
    if (!values_.contains(key)) throw py::key_error(what_ + " lacks '" + key + "'.");
    Read(key, value);
  }

  void RefuseUnknown() const {
    for (const auto& item : values_) {
      const std::string key = py::str(item.first);
      if (known_.count(key) == 0) throw py::key_error(what_ + " has an unknown key '" + key + "'.");
    }
  }

 private:
  static std::string Repr(const py::handle& value) { return py::str(py::repr(value)); }

  const std::string what_;
  const py::dict& values_;
  std::set<std::string> known_;
};

void ReadSettings(const py::dict& values, Settings* settings) {
  Reader reader("the configuration's 'settings'", values);
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
  Reader reader("the configuration", values);
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
  } catch (const std::exception& error) {  // what Reader throws
    return Internal(error.what());
  }
}

Status Configure(ClusterDescription* cluster, Settings* settings) {
  if (!TheInterpreter().Enter()) {
    return FailedPrecondition("Python is ending: no collective can begin any more.");
  }
  Status status;
  {
    py::gil_scoped_acquire acquire;
    status = CallProvider(cluster, settings);
  }
  TheInterpreter().Leave();
  return status;
}

}  // namespace

void SetPythonConfigurationProvider(py::function provider) {
  const bool first = !Provider();
  Provider() = std::move(provider);
  if (!first) return;
  py::module_::import("atexit").attr("register")(
      py::cpp_function([] { TheInterpreter().Close(); }));
  // World members must not hold the GIL while they wait for a thread that wants it.
  py::gil_scoped_release release;
  SetProcessConfigurationProvider(Configure);
}

}  // namespace npu_bridge
