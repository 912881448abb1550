#include "csrc/comm/control/process_identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "csrc/comm/control/meeting_point.h"

namespace npu_bridge {
namespace control {

const char* const kControlMemoryName = "npu_bridge_control";

namespace {

constexpr std::size_t kShownCommand = 200;
constexpr std::int64_t kRelativeSeconds = 10;

std::string Proc(pid_t process, const char* entry) {
  return "/proc/" + std::to_string(process) + "/" + entry;
}

std::string ReadLink(const std::string& path) {
  std::array<char, PATH_MAX> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(length));
}

struct ProcessStat {
  char state = 0;
  pid_t parent = 0;
  pid_t session = 0;
  std::uint64_t start_time = 0;
};

// Fields of proc(5), /proc/pid/stat, counted from the one after the command's name.
bool ReadStat(pid_t process, ProcessStat* stat) {
  const std::string text = ReadWholeFile(Proc(process, "stat"));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(text.substr(name_end + 1));
  fields >> stat->state >> stat->parent;
  std::string skipped;
  fields >> skipped >> stat->session;
  for (int field = 7; field < 22; ++field) fields >> skipped;
  fields >> stat->start_time;
  return !fields.fail();
}

std::set<pid_t> AncestorsOf(pid_t process) {
  std::set<pid_t> ancestors;
  ProcessStat stat;
  while (process > 1 && ReadStat(process, &stat) && ancestors.insert(stat.parent).second) {
    process = stat.parent;
  }
  return ancestors;
}

std::string Printable(const std::string& command_line) {
  std::string shown;
  for (const char c : command_line.substr(0, kShownCommand)) {
    shown += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : ' ';
  }
  while (!shown.empty() && shown.back() == ' ') shown.pop_back();
  if (command_line.size() > kShownCommand) shown += "...";
  return shown;
}

bool HasMet(pid_t process) {
  return ReadWholeFile(Proc(process, "maps")).find(kControlMemoryName) != std::string::npos;
}

}  // namespace

std::string ReadWholeFile(const std::string& path) {
  // Not by a stream: reading the file of a process that has just ended fails, and a stream throws.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::string();
  std::string text;
  std::array<char, 16384> part;
  ssize_t got = 0;
  while ((got = ::read(file, part.data(), part.size())) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
  }
  ::close(file);
  return text;
}

Fingerprint FingerprintOf(const std::string& text) {
  // FNV-1a, twice with different starts; the second runs backwards.
  constexpr std::uint64_t kPrime = 0x100000001b3;
  Fingerprint fingerprint;
  fingerprint.high = 0xcbf29ce484222325;
  fingerprint.low = 0x84222325cbf29ce4;
  for (std::size_t i = 0; i < text.size(); ++i) {
    fingerprint.high = (fingerprint.high ^ static_cast<unsigned char>(text[i])) * kPrime;
    fingerprint.low =
        (fingerprint.low ^ static_cast<unsigned char>(text[text.size() - 1 - i])) * kPrime;
  }
  return fingerprint;
}

std::string ToHexadecimal(const Fingerprint& fingerprint) {
  std::array<char, 33> text;
  std::snprintf(text.data(), text.size(), "%016" PRIx64 "%016" PRIx64, fingerprint.high,
                fingerprint.low);
  return text.data();
}

ProcessIdentity DescribeOwnProcess() {
  ProcessIdentity identity;
  identity.process = ::getpid();
  identity.parent = ::getppid();
  identity.session = ::getsid(0);
  struct stat pid_namespace = {};
  if (::stat("/proc/self/ns/pid", &pid_namespace) == 0) {
    identity.pid_namespace = pid_namespace.st_ino;
  }
  identity.start_time = ReadStartTime(identity.process);
  identity.directory = FingerprintOf(ReadLink("/proc/self/cwd"));
  const std::string command_line = ReadWholeFile("/proc/self/cmdline");
  identity.command = FingerprintOf(command_line);
  identity.command_text = Printable(command_line);
  return identity;
}

std::uint64_t ReadStartTime(pid_t process) {
  ProcessStat stat;
  return ReadStat(process, &stat) ? stat.start_time : 0;
}

bool RelativeOnTheWay(const std::vector<const ProcessIdentity*>& family,
                      const std::vector<pid_t>& arrived, const std::string& point) {
  if (family.empty()) return false;
  const ProcessIdentity& known = *family.front();
  const std::int64_t window = kRelativeSeconds * ::sysconf(_SC_CLK_TCK);
  const bool one_parent = std::all_of(
      family.begin(), family.end(),
      [&known](const ProcessIdentity* member) { return member->parent == known.parent; });
  const auto has_arrived = [&arrived](pid_t process) {
    return std::find(arrived.begin(), arrived.end(), process) != arrived.end();
  };
  const std::multimap<pid_t, std::string> waiting = ReadWaitingProcesses();
  const auto waits_elsewhere = [&](pid_t process) {
    const auto places = waiting.equal_range(process);
    return std::any_of(places.first, places.second,
                       [&point](const auto& place) { return place.second != point; });
  };
  std::set<pid_t> ancestors;
  for (const pid_t process : arrived) ancestors.merge(AncestorsOf(process));

  struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir("/proc"));
  if (directory == nullptr) return false;
  while (const dirent* entry = ::readdir(directory.get())) {
    const pid_t process = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (process <= 0 || has_arrived(process) || ancestors.count(process) != 0) continue;
    ProcessStat stat;
    if (!ReadStat(process, &stat) || stat.session != known.session || stat.state == 'Z') continue;
    if (one_parent && stat.parent != known.parent) continue;
    const auto started_about_then = [&](const ProcessIdentity* member) {
      const std::int64_t apart = static_cast<std::int64_t>(stat.start_time) -
                                 static_cast<std::int64_t>(member->start_time);
      return -window <= apart && apart <= window;
    };
    if (std::none_of(family.begin(), family.end(), started_about_then)) continue;
    struct stat owner = {};
    if (::stat(Proc(process, "").c_str(), &owner) != 0 || owner.st_uid != ::geteuid()) continue;
    if (!(FingerprintOf(ReadWholeFile(Proc(process, "cmdline"))) == known.command) ||
        !(FingerprintOf(ReadLink(Proc(process, "cwd"))) == known.directory)) {
      continue;
    }
    const std::set<pid_t> its_ancestors = AncestorsOf(process);
    if (std::any_of(its_ancestors.begin(), its_ancestors.end(), has_arrived)) continue;
    if (!HasMet(process) && !waits_elsewhere(process)) return true;
  }
  return false;
}

}  // namespace control
}  // namespace npu_bridge
