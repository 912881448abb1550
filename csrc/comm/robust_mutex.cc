#include "csrc/comm/robust_mutex.h"

#include <cerrno>

#include "csrc/common/processor.h"

namespace npu_bridge {
namespace comm {

void RobustMutex::Initialise() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex_, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

bool RobustMutex::Lock() {
  constexpr int kTries = 200;
  int result = EBUSY;
  for (int i = 0; i < kTries && result == EBUSY; ++i) {
    result = pthread_mutex_trylock(&mutex_);
    if (result == EBUSY) RelaxProcessor();
  }
  if (result == EBUSY) result = pthread_mutex_lock(&mutex_);
  if (result != EOWNERDEAD) return false;
  pthread_mutex_consistent(&mutex_);
  return true;
}

void RobustMutex::Unlock() { pthread_mutex_unlock(&mutex_); }

}  // namespace comm
}  // namespace npu_bridge
