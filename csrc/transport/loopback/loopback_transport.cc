// The transport whose ranks are threads of one process: the reference that others are compared to.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"
#include "csrc/transport/c_boundary.h"
#include "csrc/transport/loopback/loopback_world.h"
#include "csrc/transport/registry.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace loopback {
namespace {

constexpr std::int32_t kScore = 10;  // any transport that moves bytes between processes is better

struct Endpoint {
  std::shared_ptr<World> world;
};

struct Group {
  std::shared_ptr<World> world;
  std::string name;
  std::vector<std::int32_t> ranks;
  npu_transport_group description = {};
};

void Open(const npu_transport_world* world, const npu_transport_services* services,
          void** transport, npu_transport_status* status) {
  CopyStatus(Guarded([&] {
               if (world->host_size != world->size) {
                 return FailedPrecondition(
                     "the transport 'loopback' serves ranks that are threads of one process, but "
                     "this job spans several hosts.");
               }
               npu_transport_status shared = {};
               const int descriptor =
                   services->share_segment(services->context, "loopback.world", 4096, &shared);
               if (descriptor < 0) return ToStatus(shared);
               auto endpoint = std::make_unique<Endpoint>();
               const Status found = World::Find(descriptor, &endpoint->world);
               close(descriptor);
               if (found.ok()) *transport = endpoint.release();
               return found;
             }),
             status);
}

void Close(void* transport) { delete static_cast<Endpoint*>(transport); }

void CreateGroup(void* transport, const npu_transport_group* description, void** group,
                 npu_transport_status* status) {
  CopyStatus(Guarded([&] {
               auto made = std::make_unique<Group>();
               made->world = static_cast<Endpoint*>(transport)->world;
               made->name = description->name;
               made->ranks.assign(description->ranks, description->ranks + description->size);
               made->description = *description;
               made->description.name = made->name.c_str();
               made->description.ranks = made->ranks.data();
               *group = made.release();
               return Status::Ok();
             }),
             status);
}

void DestroyGroup(void* group) { delete static_cast<Group*>(group); }

std::int32_t Score(void*, std::int32_t collective, std::int32_t data_type, std::int32_t,
                   npu_transport_status* status) {
  if (IsReducing(static_cast<Collective>(collective)) &&
      !IsReducible(static_cast<DataType>(data_type))) {
    CopyStatus(Unimplemented(std::string("loopback cannot reduce ") +
                             DataTypeName(static_cast<DataType>(data_type))),
               status);
    return 0;
  }
  CopyStatus(Status::Ok(), status);
  return kScore;
}

void Start(void* group, const npu_transport_request* request, void** operation,
           npu_transport_status* status) {
  Group* in = static_cast<Group*>(group);
  *operation = nullptr;
  CopyStatus(Guarded([&] {
               switch (request->collective) {
                 case NPU_COLLECTIVE_SEND:
                   in->world->Send(in->description, *request);
                   break;
                 case NPU_COLLECTIVE_RECEIVE:
                   in->world->Receive(in->description, *request);
                   break;
                 default:
                   in->world->Arrive(in->description, *request);
               }
               return Status::Ok();
             }),
             status);
}

void Cancel(void* group, std::uint64_t match_id, const npu_transport_status* reason) {
  Group* in = static_cast<Group*>(group);
  in->world->Cancel(in->description.rank, match_id, *reason);
}

// A rank holds no memory that others would need back.
void RankGone(void*, std::int32_t) {}

std::size_t Describe(void* transport, char* text, std::size_t bytes) {
  const std::string counters = static_cast<Endpoint*>(transport)->world->Describe();
  return static_cast<std::size_t>(std::snprintf(text, bytes, "%s", counters.c_str()));
}

const npu_transport_interface_v1 kInterface = {
    NPU_TRANSPORT_INTERFACE_VERSION,
    sizeof(npu_transport_interface_v1),
    "loopback",
    /*flags=*/0,
    Open,
    Close,
    CreateGroup,
    DestroyGroup,
    Score,
    Start,
    Cancel,
    RankGone,
    Describe,
};

const npu_transport_interface_v1* Interface(std::uint32_t version) {
  return version == NPU_TRANSPORT_INTERFACE_VERSION ? &kInterface : nullptr;
}

const bool registered = RegisterTransport("loopback", Interface);

}  // namespace
}  // namespace loopback
}  // namespace npu_bridge
