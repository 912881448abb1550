#include "csrc/common/worker_thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

namespace npu_bridge {

Status StartWorkerThread(const char* name, std::function<void()> body, std::thread* thread) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // A thread inherits the mask of the one that makes it.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    *thread = std::thread(std::move(body));
    pthread_setname_np(thread->native_handle(), name);
  } catch (const std::system_error& error) {
    status =
        ResourceExhausted(std::string("No thread '") + name + "' can be started: " + error.what() +
                          ". Is the number of processes or threads limited (ulimit -u)?");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

}  // namespace npu_bridge
