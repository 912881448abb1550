// Messages between processes of one host over SEQPACKET sockets: a header that every build
// understands, checked lengths, descriptors by SCM_RIGHTS, and the peer's user.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_WIRE_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_WIRE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

// Raised with every change of a message or of what lies in the shared control memory.
constexpr std::uint32_t kProtocolVersion = 1;

enum class MessageType : std::uint32_t {
  // Its header and payload (int32 code, text) never change: a process of another build reads it.
  kError = 1,
  kHello = 2,      // to the registrar: who I am
  kSlow = 3,       // to the registrar: I have waited for long
  kNotice = 4,     // its answer
  kGiveUp = 5,     // to the registrar: I have waited for too long
  kTimedOut = 6,   // its answer, to all who waited together
  kLinks = 7,      // to the leader: sockets to members
  kWorld = 8,      // to each member: the world, its control memory
  kJoined = 9,     // to the registrar: I am in
  kComplete = 10,  // to each member: all are in
  kAborted = 11,   // to each member: a member is gone, wait on
  kShare = 12,     // to the leader: make or give me the segment
  kShared = 13,    // its answer
};

struct Message {
  MessageType type = MessageType::kError;
  std::string payload;
  std::vector<OwnedDescriptor> descriptors;
};

enum class Received {
  kMessage,
  kNothing,          // no message is there yet
  kClosed,           // the peer has closed, or ended
  kGarbage,          // not our protocol
  kOtherVersion,     // our protocol, of another build
  kLostDescriptors,  // this process has no free descriptors
};

// Never blocks. `peer_version` is set with kOtherVersion; the message is then filled in if it is an
// error, whose form never changes.
Received Receive(int socket, Message* message, std::uint32_t* peer_version);

// Sends at once; waits up to `patience_ms` for room in the peer's queue. False: the peer is gone or
// does not read.
bool Send(int socket, MessageType type, const std::string& payload,
          const std::vector<int>& descriptors, int patience_ms);
bool Send(int socket, MessageType type, const std::string& payload);
bool SendError(int socket, const Status& status);
Status DecodeError(const std::string& payload);

struct PeerCredentials {
  pid_t process = 0;
  uid_t user = 0;
};
// By the kernel's word (SO_PEERCRED).
bool ReadPeerCredentials(int socket, PeerCredentials* credentials);

// Appends plain values and length-prefixed text.
class Writer {
 public:
  template <typename T>
  Writer& Number(T value) {
    static_assert(std::is_trivially_copyable<T>::value, "plain values only");
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& Text(const std::string& text) {
    Number(static_cast<std::uint32_t>(text.size()));
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Reads what Writer wrote; any length that does not fit makes ok() false for good.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  template <typename T>
  T Number() {
    T value = T();
    if (!Has(sizeof value)) return value;
    std::memcpy(&value, text_.data() + place_, sizeof value);
    place_ += sizeof value;
    return value;
  }
  std::string Text(std::size_t longest) {
    const std::size_t bytes = Number<std::uint32_t>();
    if (bytes > longest || !Has(bytes)) {
      ok_ = false;
      return std::string();
    }
    place_ += bytes;
    return text_.substr(place_ - bytes, bytes);
  }
  bool ok() const { return ok_; }
  // Whether all was read, and nothing is left over.
  bool Complete() const { return ok_ && place_ == text_.size(); }

 private:
  bool Has(std::size_t bytes) {
    ok_ = ok_ && bytes <= text_.size() - place_;
    return ok_;
  }

  const std::string& text_;
  std::size_t place_ = 0;
  bool ok_ = true;
};

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_WIRE_H_
