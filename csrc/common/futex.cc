#include "csrc/common/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace npu_bridge {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "the kernel reads the word itself");

}  // namespace

// Without FUTEX_PRIVATE_FLAG, so that the word may lie in memory that processes share.
void FutexWait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
               std::int64_t timeout_ms) {
  timespec timeout;
  timeout.tv_sec = timeout_ms / 1000;
  timeout.tv_nsec = (timeout_ms % 1000) * 1000000;
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout_ms < 0 ? nullptr : &timeout, nullptr, 0);
}

void FutexWake(const std::atomic<std::uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace npu_bridge
