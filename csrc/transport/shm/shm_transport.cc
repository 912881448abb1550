// The C interface of the shared memory transport.
#include <cstdio>
#include <memory>
#include <string>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"
#include "csrc/transport/c_boundary.h"
#include "csrc/transport/registry.h"
#include "csrc/transport/shm/endpoint.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace shm {
namespace {

constexpr std::int32_t kScore = 100;

struct Group {
  Endpoint* endpoint;
  std::unique_ptr<GroupContext> context;
};

void Open(const npu_transport_world* world, const npu_transport_services* services,
          void** transport, npu_transport_status* status) {
  CopyStatus(Guarded([&] {
               std::unique_ptr<Endpoint> endpoint;
               const Status opened = Endpoint::Open(*world, *services, &endpoint);
               if (opened.ok()) *transport = endpoint.release();
               return opened;
             }),
             status);
}

void Close(void* transport) { delete static_cast<Endpoint*>(transport); }

void CreateGroup(void* transport, const npu_transport_group* description, void** group,
                 npu_transport_status* status) {
  CopyStatus(Guarded([&] {
               auto made = std::make_unique<Group>();
               made->endpoint = static_cast<Endpoint*>(transport);
               const Status created = made->endpoint->MakeGroup(*description, &made->context);
               if (created.ok()) *group = made.release();
               return created;
             }),
             status);
}

void DestroyGroup(void* group) { delete static_cast<Group*>(group); }

std::int32_t Score(void*, std::int32_t collective, std::int32_t data_type, std::int32_t,
                   npu_transport_status* status) {
  if (IsReducing(static_cast<Collective>(collective)) &&
      !IsReducible(static_cast<DataType>(data_type))) {
    CopyStatus(Unimplemented(std::string("the transport 'shm' cannot reduce ") +
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
  CopyStatus(Guarded([&] { return in->endpoint->Start(*in->context, *request); }), status);
}

void Cancel(void* group, std::uint64_t match_id, const npu_transport_status* reason) {
  static_cast<Group*>(group)->endpoint->Cancel(match_id, ToStatus(*reason));
}

void RankGone(void* transport, std::int32_t world_rank) {
  static_cast<Endpoint*>(transport)->RankGone(world_rank);
}

std::size_t Describe(void* transport, char* text, std::size_t bytes) {
  const std::string counters = static_cast<Endpoint*>(transport)->Describe();
  return static_cast<std::size_t>(std::snprintf(text, bytes, "%s", counters.c_str()));
}

const npu_transport_interface_v1 kInterface = {
    NPU_TRANSPORT_INTERFACE_VERSION,
    sizeof(npu_transport_interface_v1),
    "shm",
    NPU_TRANSPORT_HANDS_OUT_RESULTS,
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

const bool registered = RegisterTransport("shm", Interface);

}  // namespace
}  // namespace shm
}  // namespace npu_bridge
