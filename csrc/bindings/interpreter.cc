#include "csrc/bindings/interpreter.h"

#include <pybind11/pybind11.h>

#include <condition_variable>
#include <mutex>

namespace npu_bridge {
namespace {

namespace py = pybind11;

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

// Never destroyed: threads may still come after the interpreter and static destructors.
Interpreter& TheInterpreter() {
  static Interpreter* const interpreter = new Interpreter;
  return *interpreter;
}

}  // namespace

bool RunWithPython(const std::function<void()>& action) {
  if (!TheInterpreter().Enter()) return false;
  {
    py::gil_scoped_acquire acquire;
    action();
  }
  TheInterpreter().Leave();
  return true;
}

void WatchInterpreterEnd() {
  static bool watched = false;  // guarded by the GIL
  if (watched) return;
  watched = true;
  py::module_::import("atexit").attr("register")(
      py::cpp_function([] { TheInterpreter().Close(); }));
}

}  // namespace npu_bridge
