#include "csrc/bindings/session_options_hook.h"

#include <exception>
#include <utility>
#include <vector>

#include "csrc/bindings/interpreter.h"
#include "csrc/common/session_options.h"

namespace npu_bridge {
namespace {

namespace py = pybind11;

// Guarded by the GIL. Never destroyed: a graph may be optimized after the interpreter has ended.
py::function& RecordFunction() {
  static auto* const record = new py::function;
  return *record;
}

py::object ToPython(const SessionOptionValue& value) {
  if (value.kind == "b") return py::bool_(value.boolean);
  if (value.kind == "i") return py::int_(value.integer);
  if (value.kind == "f") return py::float_(value.real);
  if (value.kind == "s") return py::bytes(value.text);  // need not be UTF-8
  return py::none();
}

py::object ToPython(const SessionOption& option) {
  if (option.value.kind != "list") return ToPython(option.value);
  py::list elements;
  for (const SessionOptionValue& element : option.elements) elements.append(ToPython(element));
  return elements;
}

// With the GIL. A session runs whether its options can be kept or not.
void CallRecord(const std::vector<SessionOption>& options) {
  try {
    py::list entries;
    for (const SessionOption& option : options) {
      entries.append(py::make_tuple(py::bytes(option.name), option.value.kind, ToPython(option)));
    }
    RecordFunction()(entries);
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) {
      PyErr_SetInterrupt();  // raised again where the script can see it
      return;
    }
    error.discard_as_unraisable("npu-bridge's record of session options");
  } catch (const std::exception& error) {  // no memory for a Python object
    PyErr_SetString(PyExc_MemoryError, error.what());
    PyErr_WriteUnraisable(RecordFunction().ptr());
  }
}

}  // namespace

void SetPythonSessionOptionsHook(py::function record) {
  WatchInterpreterEnd();
  RecordFunction() = std::move(record);
  SetSessionOptionsHook([](const std::vector<SessionOption>& options) {
    RunWithPython([&] { CallRecord(options); });
  });
}

}  // namespace npu_bridge
