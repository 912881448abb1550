// Calls into Python from threads that Python did not make.
#ifndef NPU_BRIDGE_CSRC_BINDINGS_INTERPRETER_H_
#define NPU_BRIDGE_CSRC_BINDINGS_INTERPRETER_H_

#include <functional>

namespace npu_bridge {

// Runs `action` with the GIL. False, and nothing is run, once the interpreter ends: a thread that
// asks for the GIL then is ended by Python in the middle of our C++ frames.
bool RunWithPython(const std::function<void()>& action);

// Makes RunWithPython refuse from Python's atexit on. With the GIL; more than once does no harm.
void WatchInterpreterEnd();

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_BINDINGS_INTERPRETER_H_
