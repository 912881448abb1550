// What the messages of the meeting say. Decoding checks every length and range: a message may come
// from any process of this user.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_MESSAGES_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/comm/control/process_identity.h"
#include "csrc/common/status.h"

namespace npu_bridge {
namespace control {

// Ranks of one host that can meet: bounds messages and the control memory.
constexpr std::int32_t kMostRanks = 4096;

// A process that wants to be a rank.
struct Claim {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  // The rank is to be found from address and device.
  bool unnumbered = false;
  std::int32_t device = 0;
  std::string worker_address;
  std::string chief_address;
  ProcessIdentity process;
};
// Version of the package this was built as; ranks of several builds do not share memory.
std::string BuildVersion();
std::string EncodeHello(const Claim& claim, const std::string& build_version);
Status DecodeHello(const std::string& payload, Claim* claim, std::string* build_version);
// Whether the claim makes sense by itself: 0 <= rank < size <= kMostRanks, and lengths.
Status CheckClaim(const Claim& claim);

// kWorld: ranks 0..n-1 with their processes, in rank order.
struct WorldMember {
  pid_t process = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;
};
struct WorldMessage {
  std::uint64_t serial = 0;  // of the registrar's tries; kJoined repeats it
  std::int32_t rank = 0;     // the receiver's
  std::vector<WorldMember> members;
};
std::string EncodeWorld(const WorldMessage& world);
bool DecodeWorld(const std::string& payload, WorldMessage* world);

std::string EncodeJoined(std::uint64_t serial);
bool DecodeJoined(const std::string& payload, std::uint64_t* serial);

// kLinks: ranks of the members whose sockets come with it.
std::string EncodeLinks(const std::vector<std::int32_t>& ranks);
bool DecodeLinks(const std::string& payload, std::vector<std::int32_t>* ranks);

// kNotice and kTimedOut: who is there and who is not, for a message to the user.
struct Attendance {
  bool is_lowest = false;     // kNotice: the receiver is the one to print it
  std::string waiter;         // kTimedOut: who gave up
  std::int64_t waited_s = 0;  // and after how long
  std::int32_t size = 0;
  std::int32_t missing_count = 0;
  std::vector<std::int32_t> missing;  // empty when ranks have no numbers yet
  std::string present;
  std::string remarks;  // other processes that came to the same place
};
std::string EncodeAttendance(const Attendance& attendance);
bool DecodeAttendance(const std::string& payload, Attendance* attendance);

// kGiveUp
std::string EncodeGiveUp(std::int64_t waited_s);
bool DecodeGiveUp(const std::string& payload, std::int64_t* waited_s);

// "0-3, 7"
std::string FormatRanks(const std::vector<std::int32_t>& ranks);
// "rank 2 (pid 4711, python train.py)"; "device 2 at 10.0.0.1 (...)" when it has no number.
std::string DescribeClaim(const Claim& claim);
// The same without the process.
std::string NameOfClaim(const Claim& claim);

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_MESSAGES_H_
