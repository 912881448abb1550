#include "csrc/comm/control/registrar.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "csrc/comm/control/meeting_point.h"

namespace npu_bridge {
namespace control {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A guest that says nothing is no rank of ours, which greets with its first breath.
constexpr milliseconds kGreetingTime{10000};
// For worlds that are forming when the registrar's own process has met.
constexpr milliseconds kHandOffTime{2000};
constexpr milliseconds kPauseWithoutDescriptors{50};

}  // namespace

Status Registrar::Start(const std::string& name, OwnedDescriptor listener,
                        std::unique_ptr<Registrar>* registrar) {
  std::unique_ptr<Registrar> made(new Registrar(name, std::move(listener)));
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    made->thread_ = std::thread([pointer = made.get()] { pointer->Serve(); });
    *registrar = std::move(made);
  } catch (const std::system_error& error) {
    status = ResourceExhausted(
        std::string("cannot start the thread that lets the ranks meet (see ulimit -u): ") +
        error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

Registrar::Registrar(std::string name, OwnedDescriptor listener)
    : name_(std::move(name)), listener_(std::move(listener)), began_(steady_clock::now()) {}

Registrar::~Registrar() {
  if (!thread_.joinable()) return;
  if (IsForkedChild()) {
    thread_.detach();  // it exists in the parent only
    return;
  }
  // Wakes the poll, now and until the thread sees the flag; it closes the socket only after that.
  ::shutdown(listener_.get(), SHUT_RDWR);
  stopping_.store(true);
  thread_.join();
}

milliseconds Registrar::Now() const {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - began_);
}

bool Registrar::IsForming() const {
  return std::any_of(guests_.begin(), guests_.end(),
                     [](const auto& guest) { return guest->world != nullptr; });
}

void Registrar::Serve() {
  while (!stopping_.load()) {
    Poll();
    DropGone();
    if (changed_ || outcome_.ask_again) MatchGuests();
    DropGone();
  }
  // New ones find nobody from here on, and wait for a successor.
  listener_.Close();
  const auto deadline = steady_clock::now() + kHandOffTime;
  while (IsForming() && steady_clock::now() < deadline) {
    Poll();
    DropGone();
  }
  for (const auto& guest : guests_) {
    if (guest->world != nullptr) Abort(guest->world);
  }
  guests_.clear();
}

void Registrar::Poll() {
  std::vector<pollfd> polled;
  const bool listens = listener_.valid() && !out_of_descriptors_;
  if (listens) polled.push_back({listener_.get(), POLLIN, 0});
  for (const auto& guest : guests_) polled.push_back({guest->socket.get(), POLLIN, 0});

  milliseconds timeout{1000};
  if (outcome_.ask_again) timeout = std::min(timeout, outcome_.ask_again_after + milliseconds(1));
  if (out_of_descriptors_ || !listener_.valid()) {
    timeout = std::min(timeout, kPauseWithoutDescriptors);
  }
  if (changed_ && !stopping_.load()) timeout = milliseconds(0);  // there may be a match
  ::poll(polled.data(), polled.size(), static_cast<int>(timeout.count()));

  std::size_t next = listens ? 1 : 0;
  const std::size_t count = guests_.size();
  for (std::size_t i = 0; i < count; ++i, ++next) {
    Guest* guest = guests_[i].get();
    if (polled[next].revents != 0) Hear(guest);
    if (!guest->greeted && steady_clock::now() - guest->came > kGreetingTime) guest->gone = true;
  }
  out_of_descriptors_ = false;
  if (listens && (polled[0].revents & POLLIN) != 0 && !stopping_.load()) Admit();
}

void Registrar::Admit() {
  OwnedDescriptor socket = OwnedDescriptor::Make([this] {
    return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  });
  if (!socket.valid()) {
    // Guests leave when worlds form; those outside wait in the kernel's queue meanwhile.
    out_of_descriptors_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    return;
  }
  auto guest = std::make_unique<Guest>();
  guest->came = steady_clock::now();
  const Status same_user = CheckSameUser(socket.get(), name_, "came to");
  if (!same_user.ok()) {
    SendError(socket.get(), same_user);
    return;
  }
  if (!ReadPeerCredentials(socket.get(), &guest->credentials)) return;
  guest->socket = std::move(socket);
  guests_.push_back(std::move(guest));
}

void Registrar::Hear(Guest* guest) {
  while (!guest->gone) {
    Message message;
    std::uint32_t version = 0;
    switch (Receive(guest->socket.get(), &message, &version)) {
      case Received::kMessage:
        Answer(guest, message);
        break;
      case Received::kNothing:
        return;
      case Received::kOtherVersion:
        RefuseOtherVersion(guest, "protocol " + std::to_string(version));
        break;
      case Received::kClosed:
      case Received::kGarbage:
      case Received::kLostDescriptors:
        guest->gone = true;
        break;
    }
  }
}

void Registrar::Answer(Guest* guest, const Message& message) {
  if (!guest->greeted) {
    if (message.type == MessageType::kHello) {
      Greet(guest, message);
    } else {
      guest->gone = true;
    }
    return;
  }
  switch (message.type) {
    case MessageType::kSlow:
      AnswerSlow(guest);
      break;
    case MessageType::kGiveUp:
      GiveUp(guest, message);
      break;
    case MessageType::kJoined:
      Join(guest, message);
      break;
    default:
      guest->gone = true;
  }
}

void Registrar::Greet(Guest* guest, const Message& message) {
  std::string build;
  const Status status = DecodeHello(message.payload, &guest->waiting.claim, &build);
  if (status.ok() && build != BuildVersion()) {
    RefuseOtherVersion(guest, "version " + build);
    return;
  }
  const ProcessIdentity& process = guest->waiting.claim.process;
  const ProcessIdentity own = DescribeOwnProcess();
  const bool comparable = process.pid_namespace == own.pid_namespace;
  if (!status.ok() || (comparable && process.process != guest->credentials.process)) {
    SendError(
        guest->socket.get(),
        status.ok() ? InvalidArgument("a process greeted with the process id of another") : status);
    guest->gone = true;
    return;
  }
  guest->greeted = true;
  guest->waiting.arrived = Now();
  changed_ = true;
}

void Registrar::RefuseOtherVersion(Guest* guest, const std::string& version) {
  const std::string who = "process " + std::to_string(guest->credentials.process);
  SendError(guest->socket.get(),
            FailedPrecondition(
                "process " + std::to_string(::getpid()) + ", which this rank met at @" + name_ +
                ", runs another build of npu_bridge (protocol " + std::to_string(kProtocolVersion) +
                ", version " + BuildVersion() + "; here: " + version +
                "). Use one installation for all ranks of a job; if they belong to two jobs, set "
                "JOB_ID to a value of its own for each."));
  if (!strangers_.empty()) strangers_ += ", ";
  strangers_ += who + " of another build of npu_bridge (" + version + "), which was turned away";
  guest->gone = true;
}

std::vector<Registrar::Guest*> Registrar::WaitingGuests(std::vector<Waiting>* waiting) const {
  std::vector<Guest*> guests;
  for (const auto& guest : guests_) {
    if (!guest->greeted || guest->gone || guest->world != nullptr) continue;
    guests.push_back(guest.get());
    waiting->push_back(guest->waiting);
  }
  return guests;
}

void Registrar::AnswerSlow(Guest* guest) {
  std::vector<Waiting> waiting;
  const std::vector<Guest*> guests = WaitingGuests(&waiting);
  const auto found = std::find(guests.begin(), guests.end(), guest);
  if (found == guests.end()) return;  // its world is forming
  Attendance attendance = AttendanceOf(waiting, static_cast<std::size_t>(found - guests.begin()));
  if (!strangers_.empty()) {
    attendance.remarks += (attendance.remarks.empty() ? "" : ", ") + strangers_;
  }
  if (!Send(guest->socket.get(), MessageType::kNotice, EncodeAttendance(attendance))) {
    guest->gone = true;
  }
}

void Registrar::GiveUp(Guest* guest, const Message& message) {
  std::int64_t waited_s = 0;
  if (!DecodeGiveUp(message.payload, &waited_s)) {
    guest->gone = true;
    return;
  }
  if (guest->world != nullptr) Abort(guest->world);
  std::vector<Waiting> waiting;
  const std::vector<Guest*> guests = WaitingGuests(&waiting);
  const auto found = std::find(guests.begin(), guests.end(), guest);
  if (found == guests.end()) return;
  const auto which = static_cast<std::size_t>(found - guests.begin());
  Attendance attendance = AttendanceOf(waiting, which);
  attendance.waiter = NameOfClaim(guest->waiting.claim);
  attendance.waited_s = waited_s;
  if (!strangers_.empty()) {
    attendance.remarks += (attendance.remarks.empty() ? "" : ", ") + strangers_;
  }
  // Without this rank the others wait in vain.
  for (const std::size_t i : WaitTogether(waiting, which)) {
    Send(guests[i]->socket.get(), MessageType::kTimedOut, EncodeAttendance(attendance));
    guests[i]->gone = true;
  }
}

void Registrar::MatchGuests() {
  changed_ = false;
  std::vector<Waiting> waiting;
  const std::vector<Guest*> guests = WaitingGuests(&waiting);
  std::vector<pid_t> arrived;
  for (const auto& guest : guests_) {
    if (guest->greeted) arrived.push_back(guest->waiting.claim.process.process);
  }
  const RelativeProbe probe = [&](const std::vector<std::size_t>& members) {
    std::vector<const ProcessIdentity*> family;
    for (const std::size_t i : members) family.push_back(&waiting[i].claim.process);
    return RelativeOnTheWay(family, arrived, name_);
  };
  outcome_ = Match(waiting, Now(), MatchingPatience(), probe);
  for (const auto& world : outcome_.worlds) {
    std::vector<Guest*> members;
    for (const std::size_t i : world) members.push_back(guests[i]);
    Form(members);
  }
  for (const Refusal& refusal : outcome_.refusals) {
    for (const std::size_t i : refusal.waiting) {
      SendError(guests[i]->socket.get(), refusal.status);
      guests[i]->gone = true;
    }
  }
}

void Registrar::DropGone() {
  for (const auto& guest : guests_) {
    if (!guest->gone) continue;
    changed_ = true;
    if (guest->world != nullptr) Abort(guest->world);
  }
  guests_.erase(
      std::remove_if(guests_.begin(), guests_.end(), [](const auto& guest) { return guest->gone; }),
      guests_.end());
}

}  // namespace control
}  // namespace npu_bridge
