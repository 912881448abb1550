#include "csrc/transport/loopback/loopback_world.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "csrc/transport/c_boundary.h"
#include "csrc/transport/loopback/execute.h"

namespace npu_bridge {
namespace loopback {
namespace {

void Finish(const npu_transport_request& request, const Status& status,
            const std::vector<npu_transport_result>& results) {
  npu_transport_status out;
  CopyStatus(status, &out);
  request.done(request.context, &out, status.ok() ? results.data() : nullptr);
}

struct Worlds {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<World>> by_file;
};

// Never destroyed: worlds may be closed while static destructors run.
Worlds& AllWorlds() {
  static Worlds* worlds = new Worlds;
  return *worlds;
}

}  // namespace

Status World::Find(int descriptor, std::shared_ptr<World>* world) {
  struct stat file;
  if (fstat(descriptor, &file) != 0) {
    return Internal(std::string("loopback: fstat of the shared file: ") + std::strerror(errno));
  }
  // The first rank writes its process id; a rank of another process cannot be served.
  std::int32_t process = 0;
  if (pread(descriptor, &process, sizeof(process), 0) != sizeof(process)) {
    return Internal("loopback: the shared file cannot be read");
  }
  Worlds& worlds = AllWorlds();
  std::lock_guard<std::mutex> lock(worlds.mutex);
  if (process == 0) {
    process = static_cast<std::int32_t>(getpid());
    if (pwrite(descriptor, &process, sizeof(process), 0) != sizeof(process)) {
      return Internal("loopback: the shared file cannot be written");
    }
  }
  if (process != static_cast<std::int32_t>(getpid())) {
    return FailedPrecondition(
        "the transport 'loopback' serves ranks that are threads of one process, but a rank of this "
        "job runs in process " +
        std::to_string(process) + ". Unset NPU_BRIDGE_TRANSPORT, or set it to shm.");
  }
  std::weak_ptr<World>& entry = worlds.by_file[{file.st_dev, file.st_ino}];
  *world = entry.lock();
  if (*world == nullptr) {
    *world = std::make_shared<World>();
    entry = *world;
  }
  return Status::Ok();
}

void World::Arrive(const npu_transport_group& group, const npu_transport_request& request) {
  std::vector<npu_transport_request> requests;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Participant>& members = waiting_[request.match_id];
    members.resize(static_cast<std::size_t>(group.size));
    members[static_cast<std::size_t>(group.rank)].request = request;
    members[static_cast<std::size_t>(group.rank)].present = true;
    for (const Participant& member : members) {
      if (!member.present) return;
    }
    for (const Participant& member : members) requests.push_back(member.request);
    waiting_.erase(request.match_id);
    ++completed_;
  }
  std::vector<std::vector<npu_transport_result>> results(requests.size());
  const Status status = Guarded([&] {
    for (std::size_t rank = 0; rank < requests.size(); ++rank) {
      const Status allocated = AllocateResults(requests[rank], &results[rank]);
      if (!allocated.ok()) return allocated;
    }
    return Execute(requests, results);
  });
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    Finish(requests[rank], status, results[rank]);
  }
}

namespace {

void Deliver(const npu_transport_request& receiver, const Message& message) {
  std::vector<npu_transport_result> results;
  const Status status = Guarded([&] {
    const Status allocated = AllocateResults(receiver, &results);
    if (!allocated.ok()) return allocated;
    for (std::size_t t = 0; t < message.size(); ++t) {
      if (!message[t].empty()) std::memcpy(results[t].data, message[t].data(), message[t].size());
    }
    return Status::Ok();
  });
  Finish(receiver, status, results);
}

}  // namespace

void World::Send(const npu_transport_group&, const npu_transport_request& request) {
  Message message;
  for (std::uint32_t t = 0; t < request.tensor_count; ++t) {
    const npu_transport_tensor& tensor = request.tensors[t];
    const char* input = static_cast<const char*>(tensor.input);
    message.emplace_back(input, input + tensor.input_count * tensor.element_size);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  ++completed_;
  const auto found = receivers_.find(request.match_id);
  if (found == receivers_.end()) {
    messages_[request.match_id] = std::move(message);
    lock.unlock();
  } else {
    const Participant receiver = found->second;
    receivers_.erase(found);
    lock.unlock();
    Deliver(receiver.request, message);
  }
  Finish(request, Status::Ok(), {});
}

void World::Receive(const npu_transport_group&, const npu_transport_request& request) {
  Message message;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = messages_.find(request.match_id);
    if (found == messages_.end()) {
      receivers_[request.match_id] = Participant{request, true};
      return;
    }
    message = std::move(found->second);
    messages_.erase(found);
  }
  Deliver(request, message);
}

void World::Cancel(std::int32_t rank, std::uint64_t match_id, const npu_transport_status& reason) {
  npu_transport_request request = {};
  bool found = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    messages_.erase(match_id);  // sent, and never to be received
    const auto receiver = receivers_.find(match_id);
    const auto members = waiting_.find(match_id);
    if (receiver != receivers_.end()) {
      request = receiver->second.request;
      found = true;
      receivers_.erase(receiver);
    } else if (members != waiting_.end() &&
               members->second[static_cast<std::size_t>(rank)].present) {
      request = members->second[static_cast<std::size_t>(rank)].request;
      found = true;
      members->second[static_cast<std::size_t>(rank)].present = false;
      bool anybody = false;
      for (const Participant& member : members->second) anybody = anybody || member.present;
      if (!anybody) waiting_.erase(members);
    }
  }
  if (found) Finish(request, ToStatus(reason), {});
}

std::string World::Describe() {
  std::lock_guard<std::mutex> lock(mutex_);
  return "requests_waiting=" + std::to_string(waiting_.size() + receivers_.size()) +
         "\nmessages_buffered=" + std::to_string(messages_.size()) +
         "\nrequests_completed=" + std::to_string(completed_) + "\n";
}

}  // namespace loopback
}  // namespace npu_bridge
