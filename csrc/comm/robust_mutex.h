// A mutex in shared memory that survives the death of the process that holds it.
#ifndef NPU_BRIDGE_CSRC_COMM_ROBUST_MUTEX_H_
#define NPU_BRIDGE_CSRC_COMM_ROBUST_MUTEX_H_

#include <pthread.h>

namespace npu_bridge {
namespace comm {

class RobustMutex {
 public:
  // Called once, by one process, before any other use.
  void Initialise();

  // Spins for a moment first: critical sections are short, and a futex wake-up costs more than one.
  // True when the owner before died inside: what the mutex protects may then be half done.
  bool Lock();
  void Unlock();

 private:
  pthread_mutex_t mutex_;
};

class RobustLock {
 public:
  explicit RobustLock(RobustMutex* mutex) : mutex_(mutex), owner_died_(mutex->Lock()) {}
  ~RobustLock() { mutex_->Unlock(); }
  RobustLock(const RobustLock&) = delete;
  RobustLock& operator=(const RobustLock&) = delete;

  bool owner_died() const { return owner_died_; }

 private:
  RobustMutex* mutex_;
  bool owner_died_;
};

}  // namespace comm
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_ROBUST_MUTEX_H_
