// Which process a rank is, as far as that helps to tell the ranks of one job from another's.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_IDENTITY_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace npu_bridge {
namespace control {

// 128 bits that stand for a text. Not for use against an adversary.
struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Fingerprint& other) const { return high == other.high && low == other.low; }
  bool operator<(const Fingerprint& other) const {
    return high != other.high ? high < other.high : low < other.low;
  }
};
Fingerprint FingerprintOf(const std::string& text);
std::string ToHexadecimal(const Fingerprint& fingerprint);

struct ProcessIdentity {
  pid_t process = 0;
  pid_t parent = 0;
  pid_t session = 0;
  std::uint64_t pid_namespace = 0;  // process ids are comparable inside one only; 0: unknown
  std::uint64_t start_time = 0;     // clock ticks since boot; 0: unknown
  Fingerprint directory;
  Fingerprint command;
  std::string command_text;  // shortened, for messages
};

ProcessIdentity DescribeOwnProcess();

// What can be read of a file, for those under /proc: they may vanish, or fail to be read, any time.
std::string ReadWholeFile(const std::string& path);

// 0 when there is no such process, or no /proc.
std::uint64_t ReadStartTime(pid_t process);

// Whether a process of this user exists that looks like one more rank of the family (same session,
// directory and command line, the same parent if the family has one, started at about the same
// time), is not among `arrived`, is no parent or child of one of these, does not wait at another
// meeting point than `point`, and has not met with others yet. While there is one, it may be a rank
// that is still loading, so that pairing those that are here could mix up two jobs.
bool RelativeOnTheWay(const std::vector<const ProcessIdentity*>& family,
                      const std::vector<pid_t>& arrived, const std::string& point);

// The name of the control memory, by which RelativeOnTheWay knows a process that has met.
extern const char* const kControlMemoryName;

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_PROCESS_IDENTITY_H_
