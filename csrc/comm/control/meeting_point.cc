#include "csrc/comm/control/meeting_point.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "csrc/comm/control/process_identity.h"
#include "csrc/comm/control/wire.h"

namespace npu_bridge {
namespace control {
namespace {

constexpr int kBacklog = 4096;
constexpr const char* kNamePrefix = "npu_bridge-";

socklen_t AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = sockaddr_un();
  address->sun_family = AF_UNIX;
  // sun_path[0] stays NUL: an abstract name. MeetingPointName keeps it short enough.
  const std::size_t bytes = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), bytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

bool MakeSocket(OwnedDescriptor* socket, Status* status) {
  *socket = OwnedDescriptor::Make(
      [] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  if (!socket->valid()) {
    *status = ResourceExhausted(
        WithErrno("cannot open a socket to meet the other ranks (see ulimit -n)", errno));
  }
  return socket->valid();
}

}  // namespace

std::string MeetingPointName(const std::string& identity) {
  return kNamePrefix + std::to_string(::geteuid()) + "-" + ToHexadecimal(FingerprintOf(identity));
}

Reached ConnectTo(const std::string& name, OwnedDescriptor* socket, Status* status) {
  if (!MakeSocket(socket, status)) return Reached::kNo;
  sockaddr_un address;
  static std::atomic<unsigned> count{0};  // several threads of one process may wait
  const std::string own_name =
      name + "." + std::to_string(::getpid()) + "." + std::to_string(count.fetch_add(1));
  socklen_t bytes = AbstractAddress(own_name, &address);
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    *status = Internal(WithErrno("cannot name a socket @" + own_name, errno));
    return Reached::kNo;
  }
  bytes = AbstractAddress(name, &address);
  if (::connect(socket->get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) {
    return Reached::kYes;
  }
  if (errno == ECONNREFUSED) return Reached::kNobody;
  if (errno == EAGAIN || errno == EINTR) return Reached::kBusy;
  *status = Internal(WithErrno("cannot connect to the meeting point @" + name, errno));
  return Reached::kNo;
}

Reached ListenAt(const std::string& name, OwnedDescriptor* socket, Status* status) {
  if (!MakeSocket(socket, status)) return Reached::kNo;
  sockaddr_un address;
  const socklen_t bytes = AbstractAddress(name, &address);
  if (::bind(socket->get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    if (errno == EADDRINUSE) return Reached::kBusy;
    *status = Internal(WithErrno("cannot open the meeting point @" + name, errno));
    return Reached::kNo;
  }
  if (::listen(socket->get(), kBacklog) != 0) {
    *status = Internal(WithErrno("cannot listen at the meeting point @" + name, errno));
    return Reached::kNo;
  }
  return Reached::kYes;
}

std::multimap<pid_t, std::string> ReadWaitingProcesses() {
  std::multimap<pid_t, std::string> waiting;
  std::istringstream sockets(ReadWholeFile("/proc/net/unix"));
  for (std::string line; std::getline(sockets, line);) {
    const std::size_t start = line.find(std::string("@") + kNamePrefix);
    if (start == std::string::npos) continue;
    const std::size_t dot = line.find('.', start);
    if (dot == std::string::npos) continue;  // the point itself
    const auto process = static_cast<pid_t>(std::strtol(line.c_str() + dot + 1, nullptr, 10));
    waiting.emplace(process, line.substr(start + 1, dot - start - 1));
  }
  return waiting;
}

Status CheckSameUser(int socket, const std::string& name, const std::string& role) {
  PeerCredentials peer;
  if (!ReadPeerCredentials(socket, &peer)) {
    return Internal(WithErrno("cannot see which user is at the meeting point @" + name, errno));
  }
  if (peer.user == ::geteuid()) return Status::Ok();
  return FailedPrecondition("process " + std::to_string(peer.process) + ", which " + role +
                            " the meeting point @" + name + ", belongs to user id " +
                            std::to_string(peer.user) + ", not to this user (id " +
                            std::to_string(::geteuid()) +
                            "). Ranks share memory with processes of one user only. Run all ranks "
                            "as one user, or set another JOB_ID.");
}

}  // namespace control
}  // namespace npu_bridge
