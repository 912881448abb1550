#include "csrc/bindings/fusion_hooks.h"

#include <map>
#include <string>
#include <utility>

#include "csrc/bindings/dict_reader.h"
#include "csrc/bindings/interpreter.h"
#include "csrc/common/fusion_hooks.h"

namespace npu_bridge {
namespace {

namespace py = pybind11;

struct PythonHooks {
  py::function settings;
  py::function report;
};

// Guarded by the GIL. Never destroyed: a graph may be compiled after the interpreter has ended.
PythonHooks& Hooks() {
  static auto* const hooks = new PythonHooks;
  return *hooks;
}

SplitStrategy ReadStrategy(const py::dict& values) {
  SplitStrategy strategy;
  DictReader reader("a split strategy", values);
  reader.Read("last_indices", &strategy.last_indices);
  reader.Read("percentages", &strategy.percentages);
  reader.RefuseUnknown();
  return strategy;
}

void ReadSettings(const py::dict& values, FusionSettings* settings) {
  DictReader reader("the fusion settings", values);
  reader.Read("enabled", &settings->enabled);
  reader.Read("segment_bytes", &settings->segment_bytes);
  std::map<std::string, py::dict> strategies;
  reader.Read("split_strategies", &strategies);
  reader.RefuseUnknown();
  for (const auto& entry : strategies) {
    settings->split_strategies[entry.first] = ReadStrategy(entry.second);
  }
}

// Python handles Ctrl-C wherever its code runs, in these functions too. The exception is raised
// again when the main thread is back in the script; the graph, which might wait for peers, must not
// run.
Status Interrupted() {
  PyErr_SetInterrupt();
  return Cancelled("interrupted (SIGINT) while the graph was compiled.");
}

// With the GIL.
Status CallSettings(FusionSettings* settings) {
  try {
    ReadSettings(Hooks().settings().cast<py::dict>(), settings);
    return Status();
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) return Interrupted();
    const std::string text = py::str(error.value());
    if (error.matches(PyExc_ValueError)) return InvalidArgument(text);
    return Internal("the fusion settings could not be read: " + text);
  } catch (const std::exception& error) {  // what DictReader throws
    return Internal(error.what());
  }
}

py::dict ToDict(const FusionReport& report) {
  py::list segments;
  for (const FusionReport::Segment& segment : report.segments) {
    py::dict one;
    one["op"] = segment.op;
    one["key"] = segment.key;
    one["bytes"] = segment.bytes;
    one["members"] = segment.members;
    segments.append(one);
  }
  py::list alone;
  for (const FusionReport::Alone& left : report.alone) {
    py::dict one;
    one["name"] = left.name;
    one["op_type"] = left.op_type;
    one["reason"] = left.reason;
    alone.append(one);
  }
  py::dict values;
  values["graph"] = report.graph;
  values["segments"] = segments;
  values["alone"] = alone;
  return values;
}

// With the GIL. A graph that is merged runs whether it can be reported or not.
Status CallReport(const FusionReport& report) {
  try {
    Hooks().report(ToDict(report));
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) return Interrupted();
    error.discard_as_unraisable("npu-bridge's report of merged collectives");
  }
  return Status();
}

}  // namespace

void SetPythonFusionHooks(py::function settings, py::function report) {
  WatchInterpreterEnd();
  Hooks() = {std::move(settings), std::move(report)};
  FusionHooks hooks;
  hooks.settings = [](FusionSettings* read) {
    // Where Python has ended nobody can have set anything after that: the defaults do.
    Status status;
    RunWithPython([&] { status = CallSettings(read); });
    return status;
  };
  hooks.report = [](const FusionReport& made) {
    Status status;
    RunWithPython([&] { status = CallReport(made); });
    return status;
  };
  SetFusionHooks(std::move(hooks));
}

}  // namespace npu_bridge
