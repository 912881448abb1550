// The registrar's second half: how a world forms once its members are chosen.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "csrc/comm/control/registrar.h"

namespace npu_bridge {
namespace control {
namespace {

constexpr std::size_t kLinksAMessage = 16;

bool IsClosed(int socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

void Registrar::Form(const std::vector<Guest*>& members) {
  for (Guest* member : members) {
    if (IsClosed(member->socket.get())) member->gone = true;
  }
  if (std::any_of(members.begin(), members.end(), [](Guest* member) { return member->gone; })) {
    changed_ = true;  // the rest goes on waiting
    return;
  }
  auto world = std::make_shared<FormingWorld>();
  world->serial = next_serial_++;
  OwnedDescriptor control_memory;
  const Status status = ControlBlock::Create(static_cast<std::int32_t>(members.size()),
                                             &control_memory, &world->block);
  if (!status.ok()) {
    for (Guest* member : members) {
      SendError(member->socket.get(), status);
      member->gone = true;
    }
    return;
  }
  world->members = members;
  for (Guest* member : members) {
    member->world = world;
    member->joined = false;
  }
  if (!SendWorld(*world, control_memory)) Abort(world);
}

bool Registrar::SendWorld(const FormingWorld& world, const OwnedDescriptor& control_memory) {
  WorldMessage message;
  message.serial = world.serial;
  for (const Guest* member : world.members) {
    const ProcessIdentity& process = member->waiting.claim.process;
    message.members.push_back({process.process, process.pid_namespace, process.start_time});
  }
  const int leader = world.members.front()->socket.get();
  constexpr int kPatienceMs = 1000;
  std::vector<std::int32_t> linked_ranks;
  std::vector<OwnedDescriptor> linked;
  for (std::size_t rank = 1; rank < world.members.size(); ++rank) {
    OwnedDescriptor leader_end;
    OwnedDescriptor member_end;
    if (!OwnedDescriptor::MakePair(
            [](int* ends) {
              return ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
            },
            &leader_end, &member_end)) {
      const Status status = ResourceExhausted(
          WithErrno("cannot open the sockets between the ranks (see ulimit -n)", errno));
      for (Guest* member : world.members) {
        SendError(member->socket.get(), status);
        member->gone = true;
      }
      return false;
    }
    linked.push_back(std::move(leader_end));
    linked_ranks.push_back(static_cast<std::int32_t>(rank));
    message.rank = static_cast<std::int32_t>(rank);
    if (!Send(world.members[rank]->socket.get(), MessageType::kWorld, EncodeWorld(message),
              {control_memory.get(), member_end.get()}, kPatienceMs)) {
      world.members[rank]->gone = true;
      return false;
    }
    if (linked.size() == kLinksAMessage || rank + 1 == world.members.size()) {
      std::vector<int> descriptors;
      for (const OwnedDescriptor& end : linked) descriptors.push_back(end.get());
      if (!Send(leader, MessageType::kLinks, EncodeLinks(linked_ranks), descriptors, kPatienceMs)) {
        world.members.front()->gone = true;
        return false;
      }
      linked.clear();
      linked_ranks.clear();
    }
  }
  message.rank = 0;
  if (!Send(leader, MessageType::kWorld, EncodeWorld(message), {control_memory.get()},
            kPatienceMs)) {
    world.members.front()->gone = true;
    return false;
  }
  return true;
}

void Registrar::Join(Guest* guest, const Message& message) {
  std::uint64_t serial = 0;
  if (!DecodeJoined(message.payload, &serial)) {
    guest->gone = true;
    return;
  }
  // It may have crossed with the abort of its world.
  if (guest->world == nullptr || guest->world->serial != serial) return;
  guest->joined = true;
  const std::shared_ptr<FormingWorld> world = guest->world;
  const auto& members = world->members;
  if (!std::all_of(members.begin(), members.end(), [](Guest* member) { return member->joined; })) {
    return;
  }
  if (world->block->Decide(WorldPhase::kComplete) != WorldPhase::kComplete) {
    Abort(world);
    return;
  }
  for (Guest* member : members) {
    // A member that is gone by now has died as a rank of a complete world, which its peers see.
    Send(member->socket.get(), MessageType::kComplete, std::string());
    member->world = nullptr;
    member->gone = true;
  }
}

void Registrar::Abort(const std::shared_ptr<FormingWorld>& kept) {
  // `kept` may be a member's own pointer, which is cleared below.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::shared_ptr<FormingWorld> world = kept;
  world->block->Decide(WorldPhase::kAborted);
  for (Guest* member : world->members) {
    member->world = nullptr;
    if (!member->gone && !Send(member->socket.get(), MessageType::kAborted, std::string())) {
      member->gone = true;
    }
  }
  changed_ = true;
}

}  // namespace control
}  // namespace npu_bridge
