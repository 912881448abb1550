// What happens to this process as a whole: Ctrl-C, fork, the end of the interpreter. One watcher
// thread per process serves all of it, and the death notices of HostChannel.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_EVENTS_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_EVENTS_H_

#include <functional>
#include <string>

namespace npu_bridge {
namespace control {

// The end to give to Python's signal.set_wakeup_fd: a byte with a signal's number written there
// reaches the interrupt handlers when it is SIGINT or SIGTERM; others are ignored. -1 when it
// cannot be made, and in a forked child. Stays the same, also in a child that may become a rank.
int SignalDescriptor();

// `handler` runs on the watcher thread with the signal's name ("SIGINT"). Returns a token.
int AddInterruptHandler(std::function<void(const std::string& signal_name)> handler);
// Returns only when the handler is not running.
void RemoveInterruptHandler(int token);

// True in a child made by fork after this rank began to meet the others: descriptors are closed
// there and no call can work. kForkedChildMessage says so to the user.
bool IsForkedChild();
extern const char* const kForkedChildMessage;

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_EVENTS_H_
