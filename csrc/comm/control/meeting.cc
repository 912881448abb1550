// MeetOnHost: the way of one rank to its world.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "csrc/comm/control/fork_guard.h"
#include "csrc/comm/control/host_channel.h"
#include "csrc/comm/control/meeting_point.h"
#include "csrc/comm/control/messages.h"
#include "csrc/comm/control/met_channel.h"
#include "csrc/comm/control/process_watcher.h"
#include "csrc/comm/control/registrar.h"
#include "csrc/comm/control/wire.h"

namespace npu_bridge {
namespace control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// How soon *interrupted is seen.
constexpr milliseconds kLook{50};
// The point is being opened, or closed, by another process at this moment.
constexpr milliseconds kRetry{2};
// For the registrar's last word after the connect timeout.
constexpr milliseconds kLastWord{2000};

class Meeting {
 public:
  Meeting(const ClusterDescription& cluster, const Settings& settings,
          const std::atomic<bool>& interrupted)
      : cluster_(cluster),
        settings_(settings),
        interrupted_(interrupted),
        name_(MeetingPointName(cluster.identity)),
        began_(steady_clock::now()) {
    claim_.rank = cluster.unnumbered ? 0 : cluster.rank;
    claim_.size = cluster.size;
    claim_.unnumbered = cluster.unnumbered;
    claim_.device = cluster.device;
    claim_.worker_address = cluster.worker_address;
    claim_.chief_address = cluster.chief_address;
    claim_.process = DescribeOwnProcess();
  }

  Status Run(std::unique_ptr<HostChannel>* channel) {
    Status status = CheckClaim(claim_);
    ProcessWatcher* watcher = nullptr;
    if (status.ok()) status = ProcessWatcher::Get(&watcher);
    while (status.ok() && !complete_) {
      status = Interrupted();
      if (status.ok() && !socket_.valid()) status = Reach();
      if (status.ok() && socket_.valid()) status = Wait();
    }
    // The registrar of this process has done its work, too.
    socket_.Close();
    registrar_.reset();
    if (status.ok()) status = channel_->Begin();
    if (status.ok()) *channel = std::move(channel_);
    return status;
  }

 private:
  Status Interrupted() const {
    if (IsForkedChild()) return FailedPrecondition(kForkedChildMessage);
    return interrupted_.load() ? Cancelled("the wait for the other ranks was interrupted")
                               : Status::Ok();
  }

  steady_clock::time_point Deadline() const {
    return began_ + seconds(settings_.connect_timeout_s);
  }

  // Gets to the registrar, or becomes it. Leaves socket_ invalid when it is to be tried again.
  Status Reach() {
    Status status;
    OwnedDescriptor socket;
    Reached reached = ConnectTo(name_, &socket, &status);
    if (reached == Reached::kNobody && registrar_ == nullptr) {
      OwnedDescriptor listener;
      reached = ListenAt(name_, &listener, &status);
      if (reached == Reached::kYes) {
        return Registrar::Start(name_, std::move(listener), &registrar_);
      }
    } else if (reached == Reached::kYes) {
      status = CheckSameUser(socket.get(), name_, "holds");
      if (!status.ok()) return status;
      ReadPeerCredentials(socket.get(), &registrar_credentials_);
      socket_ = std::move(socket);
      asked_about_slowness_ = false;
      gave_up_ = false;
      if (!Send(socket_.get(), MessageType::kHello, EncodeHello(claim_, BuildVersion()))) {
        socket_.Close();
      }
      return Status::Ok();
    }
    if (reached == Reached::kNo) return status;
    if (steady_clock::now() >= Deadline() + kLastWord) return RegistrarIsSilent();
    ::poll(nullptr, 0, static_cast<int>(kRetry.count()));
    return Status::Ok();
  }

  // Waits for a message of the registrar, a little while, and follows it.
  Status Wait() {
    const auto now = steady_clock::now();
    if (!asked_about_slowness_ && !told_slowness_ &&
        now >= began_ + seconds(settings_.slow_start_s)) {
      asked_about_slowness_ = true;
      Send(socket_.get(), MessageType::kSlow, std::string());
    }
    if (now >= Deadline() + kLastWord) return RegistrarIsSilent();
    if (now >= Deadline() && !gave_up_) {
      gave_up_ = true;
      Send(socket_.get(), MessageType::kGiveUp, EncodeGiveUp(settings_.connect_timeout_s));
    }
    Message message;
    std::uint32_t version = 0;
    switch (Receive(socket_.get(), &message, &version)) {
      case Received::kMessage:
        return Follow(&message);
      case Received::kNothing: {
        pollfd readable = {socket_.get(), POLLIN, 0};
        ::poll(&readable, 1, static_cast<int>(kLook.count()));
        return Status::Ok();
      }
      case Received::kClosed:
        LoseRegistrar();
        return Status::Ok();
      case Received::kOtherVersion:
        if (message.type == MessageType::kError) return DecodeError(message.payload);
        return RegistrarIsStrange("speaks protocol " + std::to_string(version) +
                                  " of another build of npu_bridge; this rank speaks protocol " +
                                  std::to_string(kProtocolVersion));
      case Received::kGarbage:
        return RegistrarIsStrange("does not speak the language of npu_bridge");
      case Received::kLostDescriptors:
        break;
    }
    return ResourceExhausted(
        "no free descriptors for the memory that the ranks share. Raise the limit (ulimit -n).");
  }

  Status Follow(Message* message) {
    switch (message->type) {
      case MessageType::kError:
        return DecodeError(message->payload);
      case MessageType::kNotice:
        return TellSlowness(message->payload);
      case MessageType::kTimedOut:
        return TimedOut(message->payload);
      case MessageType::kLinks:
        return TakeLinks(message);
      case MessageType::kWorld:
        return JoinWorld(message);
      case MessageType::kComplete:
        if (channel_ == nullptr) break;
        complete_ = true;
        return Status::Ok();
      case MessageType::kAborted:
        ForgetWorld();
        return Status::Ok();
      default:
        break;
    }
    return RegistrarIsStrange("sent a message that is not for a rank that waits");
  }

  Status TakeLinks(Message* message) {
    std::vector<std::int32_t> ranks;
    if (!DecodeLinks(message->payload, &ranks) || ranks.size() != message->descriptors.size()) {
      return RegistrarIsStrange("sent sockets that do not fit their list");
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      links_[ranks[i]] = std::move(message->descriptors[i]);
    }
    return Status::Ok();
  }

  Status JoinWorld(Message* message) {
    WorldMessage world;
    const bool decoded = DecodeWorld(message->payload, &world);
    const std::size_t size = world.members.size();
    const std::size_t wanted = world.rank == 0 ? 1 : 2;
    if (!decoded || size != static_cast<std::size_t>(claim_.size) ||
        (!claim_.unnumbered && world.rank != claim_.rank) ||
        message->descriptors.size() != wanted || channel_ != nullptr) {
      return RegistrarIsStrange("put together a world that this rank did not ask for");
    }
    if (world.rank != 0) {
      links_.clear();
      links_[0] = std::move(message->descriptors[1]);
    } else if (links_.size() != size - 1 ||
               (size > 1 && links_.rbegin()->first != static_cast<std::int32_t>(size) - 1)) {
      return RegistrarIsStrange("sent a socket too few or too many");
    }
    const Status joined = MetChannel::Join(world, message->descriptors[0], std::move(links_),
                                           seconds(settings_.connect_timeout_s), &channel_);
    links_.clear();
    if (!joined.ok()) return joined;
    Send(socket_.get(), MessageType::kJoined, EncodeJoined(world.serial));
    return Status::Ok();
  }

  void ForgetWorld() {
    channel_.reset();
    links_.clear();
  }

  // The registrar has met its own world and closed the point, or it has ended. A world that was
  // forming is decided now, the same for all its members.
  void LoseRegistrar() {
    socket_.Close();
    if (channel_ != nullptr && channel_->Decide(WorldPhase::kAborted) == WorldPhase::kComplete) {
      complete_ = true;
      return;
    }
    ForgetWorld();
    ::poll(nullptr, 0, static_cast<int>(kRetry.count()));
  }

  std::string Where() const {
    return "the meeting point @" + name_ + " of this host (job '" +
           cluster_.identity.substr(0, 200) + "')";
  }

  Status RegistrarIsStrange(const std::string& what) const {
    return FailedPrecondition("process " + std::to_string(registrar_credentials_.process) +
                              ", which holds " + Where() + ", " + what +
                              ". End that process, or set another JOB_ID for all ranks.");
  }

  Status RegistrarIsSilent() const {
    return DeadlineExceeded("no answer came from process " +
                            std::to_string(registrar_credentials_.process) + ", which holds " +
                            Where() + ", within " + std::to_string(settings_.connect_timeout_s) +
                            " s. It may be stopped: end it, or set another JOB_ID for all ranks.");
  }

  std::string Missing(const Attendance& attendance) const {
    if (attendance.missing.empty()) {
      return std::to_string(attendance.missing_count) + " more of " +
             std::to_string(attendance.size) + " ranks";
    }
    return (attendance.missing.size() == 1 ? "rank " : "ranks ") + FormatRanks(attendance.missing) +
           " of " + std::to_string(attendance.size);
  }

  static std::string PresentAndOthers(const Attendance& attendance) {
    std::string text = "Here: " + attendance.present + ".";
    if (!attendance.remarks.empty()) {
      text += " Also waiting there, for another job as it seems: " + attendance.remarks + ".";
    }
    return text;
  }

  Status TellSlowness(const std::string& payload) {
    Attendance attendance;
    if (!DecodeAttendance(payload, &attendance)) {
      return RegistrarIsStrange("sent a list of ranks that cannot be read");
    }
    if (!attendance.is_lowest || told_slowness_) return Status::Ok();
    told_slowness_ = true;
    const std::string text =
        "npu_bridge: " + NameOfClaim(claim_) + " has waited " +
        std::to_string(settings_.slow_start_s) + " s for " + Missing(attendance) + " at " +
        Where() + ". " + PresentAndOthers(attendance) + " It waits up to " +
        std::to_string(settings_.connect_timeout_s) + " s (HCCL_CONNECT_TIMEOUT).\n";
    // One write: lines of several ranks stay whole. Nobody is to be told if stderr is closed.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    return Status::Ok();
  }

  Status TimedOut(const std::string& payload) const {
    Attendance attendance;
    if (!DecodeAttendance(payload, &attendance)) {
      return RegistrarIsStrange("sent a list of ranks that cannot be read");
    }
    std::string text = attendance.waiter + " waited " + std::to_string(attendance.waited_s) +
                       " s in vain for " + Missing(attendance) + " at " + Where() + ". " +
                       PresentAndOthers(attendance);
    for (const std::int32_t rank : attendance.missing) {
      const auto place = static_cast<std::size_t>(std::max(rank, 0));
      if (place < cluster_.rank_locations.size() && !cluster_.rank_locations[place].empty()) {
        text += " " + cluster_.rank_locations[place];
      }
    }
    text +=
        " See whether the missing ranks have started on this host, as the same user and with the "
        "same JOB_ID, RANK_SIZE and rank table. If they need longer, raise HCCL_CONNECT_TIMEOUT. "
        "Ranks on several hosts need the Gloo transport, which this build lacks.";
    return DeadlineExceeded(std::move(text));
  }

  const ClusterDescription& cluster_;
  const Settings& settings_;
  const std::atomic<bool>& interrupted_;
  const std::string name_;
  const steady_clock::time_point began_;
  Claim claim_;

  std::unique_ptr<Registrar> registrar_;  // if this process runs it
  PeerCredentials registrar_credentials_;
  OwnedDescriptor socket_;
  std::map<std::int32_t, OwnedDescriptor> links_;
  std::unique_ptr<MetChannel> channel_;  // of a world that is forming, or complete
  bool complete_ = false;
  bool asked_about_slowness_ = false;  // of this registrar
  bool told_slowness_ = false;
  bool gave_up_ = false;  // likewise
};

}  // namespace

Status MeetOnHost(const ClusterDescription& cluster, const Settings& settings,
                  const std::atomic<bool>& interrupted, std::unique_ptr<HostChannel>* channel) {
  if (cluster.size == 1 && (cluster.unnumbered || cluster.rank == 0)) {
    *channel = std::move(MakeChannelsInProcess(1).front());
    return Status::Ok();
  }
  return Meeting(cluster, settings, interrupted).Run(channel);
}

}  // namespace control
}  // namespace npu_bridge
