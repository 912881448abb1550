#include "csrc/comm/control/messages.h"

#include <cstddef>

#include "csrc/comm/control/wire.h"

#ifndef NPU_BRIDGE_VERSION
#define NPU_BRIDGE_VERSION "unknown"
#endif

namespace npu_bridge {
namespace control {
namespace {

constexpr std::size_t kLongestName = 1024;
constexpr std::size_t kLongestText = 32 * 1024;

void Put(Writer* writer, const Fingerprint& fingerprint) {
  writer->Number(fingerprint.high).Number(fingerprint.low);
}

Fingerprint GetFingerprint(Reader* reader) {
  Fingerprint fingerprint;
  fingerprint.high = reader->Number<std::uint64_t>();
  fingerprint.low = reader->Number<std::uint64_t>();
  return fingerprint;
}

// Cuts a list that a very large world would make too long for one message.
std::string Cut(const std::string& text) {
  constexpr std::size_t kEnough = 8 * 1024;
  return text.size() <= kEnough ? text : text.substr(0, kEnough) + "...";
}

}  // namespace

std::string BuildVersion() { return NPU_BRIDGE_VERSION; }

std::string EncodeHello(const Claim& claim, const std::string& build_version) {
  Writer writer;
  writer.Text(build_version).Number(claim.rank).Number(claim.size);
  writer.Number(static_cast<std::uint8_t>(claim.unnumbered)).Number(claim.device);
  writer.Text(claim.worker_address).Text(claim.chief_address);
  const ProcessIdentity& process = claim.process;
  writer.Number(process.process).Number(process.parent).Number(process.session);
  writer.Number(process.pid_namespace).Number(process.start_time);
  Put(&writer, process.directory);
  Put(&writer, process.command);
  writer.Text(process.command_text);
  return writer.text();
}

Status DecodeHello(const std::string& payload, Claim* claim, std::string* build_version) {
  Reader reader(payload);
  *build_version = reader.Text(kLongestName);
  claim->rank = reader.Number<std::int32_t>();
  claim->size = reader.Number<std::int32_t>();
  claim->unnumbered = reader.Number<std::uint8_t>() != 0;
  claim->device = reader.Number<std::int32_t>();
  claim->worker_address = reader.Text(kLongestName);
  claim->chief_address = reader.Text(kLongestName);
  ProcessIdentity& process = claim->process;
  process.process = reader.Number<pid_t>();
  process.parent = reader.Number<pid_t>();
  process.session = reader.Number<pid_t>();
  process.pid_namespace = reader.Number<std::uint64_t>();
  process.start_time = reader.Number<std::uint64_t>();
  process.directory = GetFingerprint(&reader);
  process.command = GetFingerprint(&reader);
  process.command_text = reader.Text(kLongestName);
  if (!reader.Complete()) {
    return InvalidArgument("the meeting of the ranks got a greeting that it cannot read");
  }
  return CheckClaim(*claim);
}

Status CheckClaim(const Claim& claim) {
  if (claim.size < 1 || claim.size > kMostRanks) {
    return InvalidArgument(
        "a job of " + std::to_string(claim.size) +
        " ranks was asked for; ranks that share memory on one host can be 1 to " +
        std::to_string(kMostRanks) + ". Check RANK_SIZE.");
  }
  if (!claim.unnumbered && (claim.rank < 0 || claim.rank >= claim.size)) {
    return InvalidArgument("rank " + std::to_string(claim.rank) + " is outside a job of " +
                           std::to_string(claim.size) + " ranks, which are numbered 0 to " +
                           std::to_string(claim.size - 1) + ". Check RANK_ID and RANK_SIZE.");
  }
  if (claim.worker_address.size() > kLongestName || claim.chief_address.size() > kLongestName) {
    return InvalidArgument("CM_WORKER_IP or CM_CHIEF_IP is longer than " +
                           std::to_string(kLongestName) + " characters; they are addresses.");
  }
  return Status::Ok();
}

std::string EncodeWorld(const WorldMessage& world) {
  Writer writer;
  writer.Number(world.serial).Number(world.rank);
  writer.Number(static_cast<std::uint32_t>(world.members.size()));
  for (const WorldMember& member : world.members) {
    writer.Number(member.process).Number(member.pid_namespace).Number(member.start_time);
  }
  return writer.text();
}

bool DecodeWorld(const std::string& payload, WorldMessage* world) {
  Reader reader(payload);
  world->serial = reader.Number<std::uint64_t>();
  world->rank = reader.Number<std::int32_t>();
  const auto count = reader.Number<std::uint32_t>();
  if (!reader.ok() || count < 1 || count > static_cast<std::uint32_t>(kMostRanks)) return false;
  if (world->rank < 0 || static_cast<std::uint32_t>(world->rank) >= count) return false;
  world->members.resize(count);
  for (WorldMember& member : world->members) {
    member.process = reader.Number<pid_t>();
    member.pid_namespace = reader.Number<std::uint64_t>();
    member.start_time = reader.Number<std::uint64_t>();
  }
  return reader.Complete();
}

std::string EncodeJoined(std::uint64_t serial) { return Writer().Number(serial).text(); }

bool DecodeJoined(const std::string& payload, std::uint64_t* serial) {
  Reader reader(payload);
  *serial = reader.Number<std::uint64_t>();
  return reader.Complete();
}

std::string EncodeLinks(const std::vector<std::int32_t>& ranks) {
  Writer writer;
  writer.Number(static_cast<std::uint32_t>(ranks.size()));
  for (const std::int32_t rank : ranks) writer.Number(rank);
  return writer.text();
}

bool DecodeLinks(const std::string& payload, std::vector<std::int32_t>* ranks) {
  Reader reader(payload);
  const auto count = reader.Number<std::uint32_t>();
  if (!reader.ok() || count > static_cast<std::uint32_t>(kMostRanks)) return false;
  ranks->clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto rank = reader.Number<std::int32_t>();
    if (rank < 1 || rank >= kMostRanks) return false;  // rank 0 leads: it has no link to itself
    ranks->push_back(rank);
  }
  return reader.Complete();
}

std::string EncodeAttendance(const Attendance& attendance) {
  Writer writer;
  writer.Number(static_cast<std::uint8_t>(attendance.is_lowest)).Text(Cut(attendance.waiter));
  writer.Number(attendance.waited_s).Number(attendance.size).Number(attendance.missing_count);
  writer.Number(static_cast<std::uint32_t>(attendance.missing.size()));
  for (const std::int32_t rank : attendance.missing) writer.Number(rank);
  writer.Text(Cut(attendance.present)).Text(Cut(attendance.remarks));
  return writer.text();
}

bool DecodeAttendance(const std::string& payload, Attendance* attendance) {
  Reader reader(payload);
  attendance->is_lowest = reader.Number<std::uint8_t>() != 0;
  attendance->waiter = reader.Text(kLongestText);
  attendance->waited_s = reader.Number<std::int64_t>();
  attendance->size = reader.Number<std::int32_t>();
  attendance->missing_count = reader.Number<std::int32_t>();
  const auto count = reader.Number<std::uint32_t>();
  if (!reader.ok() || count > static_cast<std::uint32_t>(kMostRanks)) return false;
  attendance->missing.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    attendance->missing.push_back(reader.Number<std::int32_t>());
  }
  attendance->present = reader.Text(kLongestText);
  attendance->remarks = reader.Text(kLongestText);
  return reader.Complete();
}

std::string EncodeGiveUp(std::int64_t waited_s) { return Writer().Number(waited_s).text(); }

bool DecodeGiveUp(const std::string& payload, std::int64_t* waited_s) {
  Reader reader(payload);
  *waited_s = reader.Number<std::int64_t>();
  return reader.Complete();
}

std::string FormatRanks(const std::vector<std::int32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string NameOfClaim(const Claim& claim) {
  if (!claim.unnumbered) return "rank " + std::to_string(claim.rank);
  return "device " + std::to_string(claim.device) + " at " + claim.worker_address;
}

std::string DescribeClaim(const Claim& claim) {
  return NameOfClaim(claim) + " (pid " + std::to_string(claim.process.process) + ", " +
         claim.process.command_text + ")";
}

}  // namespace control
}  // namespace npu_bridge
