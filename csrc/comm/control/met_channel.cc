#include "csrc/comm/control/met_channel.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "csrc/comm/control/memory_file.h"
#include "csrc/comm/control/process_identity.h"
#include "csrc/comm/control/wire.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace npu_bridge {
namespace control {
namespace {

constexpr std::size_t kLongestText = 64 * 1024;

}  // namespace

Status MetChannel::Join(const WorldMessage& world, const OwnedDescriptor& control_memory,
                        std::map<std::int32_t, OwnedDescriptor> links,
                        std::chrono::seconds segment_timeout,
                        std::unique_ptr<MetChannel>* channel) {
  std::unique_ptr<MetChannel> made(new MetChannel);
  const auto size = static_cast<std::int32_t>(world.members.size());
  made->segment_timeout_ = segment_timeout;
  made->reported_.resize(world.members.size());
  HostMembership& membership = made->membership_;
  membership.rank = membership.host_rank = world.rank;
  membership.size = size;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const WorldMember& member = world.members[static_cast<std::size_t>(rank)];
    membership.host_ranks.push_back(rank);
    membership.process_ids.push_back(member.process);
    made->peers_.emplace_back();
    made->peers_.back().member = member;
  }
  made->pid_namespace_ = world.members[static_cast<std::size_t>(world.rank)].pid_namespace;
  if (world.rank == 0) {
    for (auto& link : links) made->links_[link.first].socket = std::move(link.second);
  } else {
    made->leader_ = std::move(links.at(0));
  }
  Status status = ProcessWatcher::Get(&made->watcher_);
  std::unique_ptr<ControlBlock> block;
  if (status.ok()) status = ControlBlock::Attach(control_memory, size, &block);
  if (!status.ok()) return status;
  // The watcher thread lives as long as the process, so that the lock tells of the process.
  made->watcher_->Run([&] { status = block->HoldLiveness(world.rank); });
  if (!status.ok()) return status;
  made->block_ = std::move(block);
  *channel = std::move(made);
  return Status::Ok();
}

MetChannel::~MetChannel() {
  // In a forked child nothing of this is the child's: descriptors are closed, memory is replaced.
  if (block_ == nullptr || IsForkedChild()) return;
  Leave();
  watcher_->Run([this] {
    watcher_->Remove(tick_);
    for (Peer& peer : peers_) watcher_->Remove(peer.token);
    block_->DropLiveness(membership_.rank);
  });
}

Status MetChannel::Begin() {
  Status status;
  watcher_->Run([this, &status] {
    for (auto& link : links_) {
      const std::int32_t rank = link.first;
      const Status watched = watcher_->Watch(
          link.second.socket.get(), [this, rank] { Serve(rank); }, &link.second.token);
      if (!watched.ok()) status = watched;
    }
    for (std::int32_t rank = 0; rank < membership_.size; ++rank) WatchPeer(rank);
    tick_ = watcher_->AddTick([this] { CheckPeers(); });
  });
  return status;
}

void MetChannel::WatchPeer(std::int32_t rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  // Ranks in one process (tests) end together; a process id of another namespace is not ours.
  if (rank == membership_.rank || peer.member.process == ::getpid() ||
      peer.member.pid_namespace != pid_namespace_) {
    return;
  }
  const pid_t process = peer.member.process;
  peer.pidfd = OwnedDescriptor::Make(
      [process] { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); });
  if (!peer.pidfd.valid()) {
    if (errno == ESRCH) SeeEnd(rank);
    return;  // refused: the liveness lock tells
  }
  // The number may have been given to another process before the pidfd was opened.
  const std::uint64_t start_time = ReadStartTime(process);
  if (start_time != 0 && peer.member.start_time != 0 && start_time != peer.member.start_time) {
    peer.pidfd.Close();
    SeeEnd(rank);
    return;
  }
  const Status watched =
      watcher_->Watch(peer.pidfd.get(), [this, rank] { SeeEnd(rank); }, &peer.token);
  if (!watched.ok()) peer.pidfd.Close();  // likewise
}

void MetChannel::CheckPeers() {
  for (std::int32_t rank = 0; rank < membership_.size; ++rank) {
    if (rank == membership_.rank) continue;
    const RankState now = block_->state(rank);
    if (now == RankState::kDead || (now == RankState::kAlive && block_->HolderIsGone(rank))) {
      SeeEnd(rank);
    }
  }
}

void MetChannel::SeeEnd(std::int32_t rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  watcher_->Remove(peer.token);
  peer.token = 0;
  peer.pidfd.Close();
  if (block_->Mark(rank, RankState::kDead) == RankState::kDead) Report(rank);
}

void MetChannel::Report(std::int32_t rank) {
  std::function<void(std::int32_t)> handler;
  {
    const std::lock_guard<std::mutex> lock(handler_mutex_);
    if (reported_[static_cast<std::size_t>(rank)]) return;
    reported_[static_cast<std::size_t>(rank)] = true;
    if (!handler_) undelivered_.push_back(rank);
    handler = handler_;
  }
  if (handler) handler(rank);
}

void MetChannel::SetDeathHandler(std::function<void(std::int32_t)> handler) {
  if (IsForkedChild()) return;
  const bool stops = !handler;
  {
    const std::lock_guard<std::mutex> lock(handler_mutex_);
    handler_ = std::move(handler);
  }
  if (stops) {
    watcher_->Run([] {});  // a call that is running ends before
    return;
  }
  watcher_->Post([this] {
    std::vector<std::int32_t> ranks;
    std::function<void(std::int32_t)> current;
    {
      const std::lock_guard<std::mutex> lock(handler_mutex_);
      current = handler_;
      if (current) ranks.swap(undelivered_);
    }
    for (const std::int32_t rank : ranks) current(rank);
  });
}

RankState MetChannel::state(std::int32_t world_rank) const {
  return InWorld(world_rank) ? block_->state(world_rank) : RankState::kAlive;
}

std::string MetChannel::DescribeRank(std::int32_t world_rank) const {
  if (!InWorld(world_rank)) return "not of this host";
  std::string text =
      "pid " + std::to_string(membership_.process_ids[static_cast<std::size_t>(world_rank)]);
  switch (state(world_rank)) {
    case RankState::kAlive:
      break;
    case RankState::kLeft:
      text += ", which left the job";
      break;
    case RankState::kDead:
      text += ", which ended without leaving the job (killed, crashed, or os._exit)";
      break;
  }
  return text;
}

void MetChannel::Leave() {
  if (IsForkedChild()) return;
  block_->Mark(membership_.rank, RankState::kLeft);
  watcher_->Run([this] { CloseLinks(); });
}

void MetChannel::MarkDeadForTest() { block_->Mark(membership_.rank, RankState::kDead); }

void MetChannel::CloseLinks() {
  for (auto& link : links_) watcher_->Remove(link.second.token);
  links_.clear();
}

void MetChannel::Serve(std::int32_t rank) {
  const auto link = links_.find(rank);
  if (link == links_.end()) return;
  const int socket = link->second.socket.get();
  bool gone = false;
  while (!gone) {
    Message message;
    std::uint32_t version = 0;
    const Received received = Receive(socket, &message, &version);
    if (received == Received::kNothing) return;
    Reader reader(message.payload);
    const std::string name = reader.Text(kLongestSegmentName);
    const auto bytes = reader.Number<std::uint64_t>();
    gone =
        received != Received::kMessage || message.type != MessageType::kShare || !reader.Complete();
    if (gone) break;
    OwnedDescriptor segment;
    const Status status = segments_.Share(name, bytes, &segment);
    std::vector<int> descriptors;
    if (status.ok()) descriptors.push_back(segment.get());
    Writer answer;
    answer.Number(static_cast<std::int32_t>(status.code()));
    answer.Text(status.message().substr(0, kLongestText));
    gone = !Send(socket, MessageType::kShared, answer.text(), descriptors, 0);
  }
  watcher_->Remove(link->second.token);
  links_.erase(link);
}

Status MetChannel::ShareSegment(const std::string& name, std::uint64_t bytes, int* descriptor) {
  Status status = CheckNotForked();
  if (status.ok()) status = CheckSegment(name, bytes);
  if (!status.ok()) return status;
  if (membership_.rank != 0) return AskLeader(name, bytes, descriptor);
  if (block_->state(0) != RankState::kAlive) {
    return FailedPrecondition("rank 0 has left the job; it shares no segment '" + name +
                              "' any more");
  }
  OwnedDescriptor segment;
  status = segments_.Share(name, bytes, &segment);
  if (status.ok()) *descriptor = segment.Release();
  return status;
}

Status MetChannel::LeaderIsGone(const std::string& name) const {
  // The kernel closes the leader's sockets before anybody marks it as dead.
  return Internal("rank 0 (" + DescribeRank(0) + ") ended or left before it shared segment '" +
                  name + "' with rank " + std::to_string(membership_.rank) +
                  ". Look at rank 0's own output, and start the job again.");
}

Status MetChannel::AskLeader(const std::string& name, std::uint64_t bytes, int* descriptor) {
  const std::lock_guard<std::mutex> lock(asking_);
  Writer question;
  question.Text(name).Number(bytes);
  if (!leader_.valid() || !Send(leader_.get(), MessageType::kShare, question.text())) {
    return LeaderIsGone(name);
  }
  const auto deadline = std::chrono::steady_clock::now() + segment_timeout_;
  Message answer;
  std::uint32_t version = 0;
  Received received = Received::kNothing;
  while ((received = Receive(leader_.get(), &answer, &version)) == Received::kNothing) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      leader_.Close();  // a late answer must not be taken for that to another question
      return DeadlineExceeded("rank 0 (" + DescribeRank(0) + ") did not share segment '" + name +
                              "' within " + std::to_string(segment_timeout_.count()) +
                              " s; its process may be stopped. HCCL_CONNECT_TIMEOUT is the limit.");
    }
    pollfd readable = {leader_.get(), POLLIN, 0};
    ::poll(&readable, 1, static_cast<int>(left.count()) + 1);
  }
  if (received == Received::kLostDescriptors) {
    return ResourceExhausted("no free descriptor for shared memory segment '" + name +
                             "'. Raise the limit (ulimit -n).");
  }
  if (received == Received::kClosed) {
    leader_.Close();
    return LeaderIsGone(name);
  }
  Reader reader(answer.payload);
  const auto code = reader.Number<std::int32_t>();
  reader.Text(kLongestText);  // what DecodeError gives, below
  if (received != Received::kMessage || answer.type != MessageType::kShared || !reader.Complete() ||
      (code == 0) != (answer.descriptors.size() == 1)) {
    leader_.Close();
    return Internal("rank 0 (" + DescribeRank(0) + ") gave an answer about segment '" + name +
                    "' that rank " + std::to_string(membership_.rank) + " cannot read");
  }
  if (code != 0) return DecodeError(answer.payload);
  const Status status = CheckMemoryFile(name, bytes, answer.descriptors.front().get());
  if (status.ok()) *descriptor = answer.descriptors.front().Release();
  return status;
}

}  // namespace control
}  // namespace npu_bridge
