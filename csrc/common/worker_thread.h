// Threads of our own inside somebody else's process.
#ifndef NPU_BRIDGE_CSRC_COMMON_WORKER_THREAD_H_
#define NPU_BRIDGE_CSRC_COMMON_WORKER_THREAD_H_

#include <functional>
#include <thread>

#include "csrc/common/status.h"

namespace npu_bridge {

// Starts a thread that takes no signals: those are for the threads of the application. `name`: at
// most 15 bytes, for debuggers. ResourceExhausted where the system gives no more threads.
Status StartWorkerThread(const char* name, std::function<void()> body, std::thread* thread);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_WORKER_THREAD_H_
