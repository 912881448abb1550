// The abstract UNIX socket where the ranks of a job find each other. No file stands for it; it
// is free again as soon as its holder ends.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_MEETING_POINT_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_MEETING_POINT_H_

#include <sys/types.h>

#include <map>
#include <string>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

// Its name, from this process's user and the job's identity, without the leading NUL.
std::string MeetingPointName(const std::string& identity);

enum class Reached {
  kYes,
  kNobody,  // nobody listens there (or no longer, or not yet)
  kBusy,    // the listener has no room at the moment
  kNo,      // an error, in status
};

// The socket gets a name of its own, by which other processes see that this one waits, and where.
Reached ConnectTo(const std::string& name, OwnedDescriptor* socket, Status* status);
// kYes: this process listens there now; kBusy: another does.
Reached ListenAt(const std::string& name, OwnedDescriptor* socket, Status* status);

// The meeting points where processes of this host wait at this moment, by process id.
std::multimap<pid_t, std::string> ReadWaitingProcesses();

// Whether the process at the other end belongs to this user: the name of an abstract socket
// protects nothing. `role` says in the error what the other process is.
Status CheckSameUser(int socket, const std::string& name, const std::string& role);

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_MEETING_POINT_H_
