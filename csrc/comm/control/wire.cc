#include "csrc/comm/control/wire.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace npu_bridge {
namespace control {
namespace {

struct Header {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t type;
  std::uint32_t payload_bytes;
};
constexpr std::uint32_t kMagic = 0x4255504e;  // "NPUB"

// Fits the default send buffer of a UNIX socket, with the kernel's overhead.
constexpr std::size_t kLongestMessage = 160 * 1024;
constexpr std::size_t kLongestErrorText = 64 * 1024;
constexpr std::size_t kMostDescriptors = 32;
// Long enough for a process of ours that is scheduled at all; a stranger is dropped after it.
constexpr int kSendPatienceMs = 1000;

void TakeDescriptors(const ForkBlocked& lock, msghdr* header, Message* message) {
  for (cmsghdr* control = CMSG_FIRSTHDR(header); control != nullptr;
       control = CMSG_NXTHDR(header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(control) + i * sizeof descriptor, sizeof descriptor);
      message->descriptors.push_back(OwnedDescriptor(lock, descriptor));
    }
  }
}

bool WouldWait(int error) {
  // ETOOMANYREFS: too many descriptors of this user are under way at the moment.
  return error == EAGAIN || error == EWOULDBLOCK || error == ETOOMANYREFS || error == ENOBUFS;
}

}  // namespace

Received Receive(int socket, Message* message, std::uint32_t* peer_version) {
  *message = Message();
  ssize_t length = 0;
  do {
    // A peer that closed with unread messages of ours leaves ECONNRESET, reported once; its own
    // last messages are behind that.
    length = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (length < 0 && WouldWait(errno)) return Received::kNothing;
  if (length <= 0) return Received::kClosed;
  if (static_cast<std::size_t>(length) > kLongestMessage) return Received::kGarbage;

  std::string bytes(static_cast<std::size_t>(length), '\0');
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control;
  iovec part = {&bytes[0], bytes.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  {
    const ForkBlocked lock;
    length = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length >= 0) TakeDescriptors(lock, &header, message);
  }
  if (length < 0) return WouldWait(errno) ? Received::kNothing : Received::kClosed;

  Header fixed = {};
  if (bytes.size() < sizeof fixed || (header.msg_flags & MSG_TRUNC) != 0) return Received::kGarbage;
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.magic != kMagic || fixed.payload_bytes != bytes.size() - sizeof fixed) {
    return Received::kGarbage;
  }
  message->type = static_cast<MessageType>(fixed.type);
  message->payload = bytes.substr(sizeof fixed);
  if (fixed.version != kProtocolVersion) {
    *peer_version = fixed.version;
    return Received::kOtherVersion;
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) return Received::kLostDescriptors;
  return Received::kMessage;
}

bool Send(int socket, MessageType type, const std::string& payload,
          const std::vector<int>& descriptors, int patience_ms) {
  if (payload.size() + sizeof(Header) > kLongestMessage || descriptors.size() > kMostDescriptors) {
    return false;
  }
  Header fixed = {kMagic, kProtocolVersion, static_cast<std::uint32_t>(type),
                  static_cast<std::uint32_t>(payload.size())};
  std::array<iovec, 2> parts = {
      {{&fixed, sizeof fixed}, {const_cast<char*>(payload.data()), payload.size()}}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  if (!descriptors.empty()) {
    const std::size_t bytes = descriptors.size() * sizeof(int);
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), bytes);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (true) {
    if (::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    if (!WouldWait(errno) || std::chrono::steady_clock::now() >= deadline) return false;
    // Writable does not always mean room here (ETOOMANYREFS), hence the pause beside it.
    pollfd room = {socket, POLLOUT, 0};
    ::poll(&room, 1, 10);
    ::poll(nullptr, 0, 1);
  }
}

bool Send(int socket, MessageType type, const std::string& payload) {
  return Send(socket, type, payload, {}, kSendPatienceMs);
}

bool SendError(int socket, const Status& status) {
  Writer writer;
  writer.Number(static_cast<std::int32_t>(status.code()))
      .Text(status.message().substr(0, kLongestErrorText));
  return Send(socket, MessageType::kError, writer.text());
}

Status DecodeError(const std::string& payload) {
  Reader reader(payload);
  const auto code = reader.Number<std::int32_t>();
  std::string text = reader.Text(kLongestErrorText);
  if (!reader.Complete() || code == 0) {
    return Internal("the process that leads the meeting of the ranks sent an error without a text");
  }
  switch (static_cast<StatusCode>(code)) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kResourceExhausted:
    case StatusCode::kFailedPrecondition:
      return Status(static_cast<StatusCode>(code), std::move(text));
    default:
      return Internal(std::move(text));
  }
}

bool ReadPeerCredentials(int socket, PeerCredentials* credentials) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  credentials->process = peer.pid;
  credentials->user = peer.uid;
  return true;
}

}  // namespace control
}  // namespace npu_bridge
