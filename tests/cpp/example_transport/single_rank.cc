// The smallest transport there is, as a shared library outside npu_bridge: it serves jobs of one
// rank, where every collective gives back what went in. docs/add-a-transport.md walks through it.
#include <stdio.h>
#include <string.h>

#include "csrc/transport/transport.h"

namespace {

void Say(npu_transport_status* status, int32_t code, const char* text) {
  status->code = code;
  snprintf(status->message, sizeof(status->message), "%s", text);
}

// Nothing has to be kept between calls, so all handles are this one's address.
char handle;

void Open(const npu_transport_world* world, const npu_transport_services*, void** transport,
          npu_transport_status* status) {
  if (world->size != 1) {
    Say(status, 9, "the transport 'single_rank' serves jobs of one rank");
    return;
  }
  *transport = &handle;
  Say(status, 0, "");
}

void Close(void*) {}

void CreateGroup(void*, const npu_transport_group*, void** group, npu_transport_status* status) {
  *group = &handle;
  Say(status, 0, "");
}

void DestroyGroup(void*) {}

int32_t Score(void*, int32_t collective, int32_t, int32_t, npu_transport_status* status) {
  if (collective == NPU_COLLECTIVE_ALL_TO_ALL_V || collective == NPU_COLLECTIVE_SEND ||
      collective == NPU_COLLECTIVE_RECEIVE) {
    Say(status, 12, "the transport 'single_rank' has no all-to-all, send or receive");
    return 0;
  }
  Say(status, 0, "");
  return 1;
}

void Start(void*, const npu_transport_request* request, void** operation,
           npu_transport_status* status) {
  enum { kMostTensors = 16 };
  *operation = &handle;
  if (request->tensor_count > kMostTensors) {
    Say(status, 12, "the transport 'single_rank' takes at most 16 tensors");
    return;
  }
  Say(status, 0, "");
  npu_transport_result results[kMostTensors] = {};
  for (uint32_t i = 0; i < request->tensor_count; ++i) {
    const npu_transport_tensor* tensor = &request->tensors[i];
    const uint64_t bytes = tensor->result_count * tensor->element_size;
    if (bytes == 0) continue;
    results[i].data = request->allocate(request->context, i, bytes);
    if (results[i].data == nullptr) {
      npu_transport_status failed;
      Say(&failed, 8, "no memory for a result");
      request->done(request->context, &failed, nullptr);
      return;
    }
    memcpy(results[i].data, tensor->input, bytes);
  }
  request->done(request->context, status, results);
}

// Requests are done when start() returns: there is never one to cancel.
void Cancel(void*, uint64_t, const npu_transport_status*) {}

void RankGone(void*, int32_t) {}

size_t Describe(void*, char* text, size_t bytes) {
  return static_cast<size_t>(snprintf(text, bytes, "kind=example\n"));
}

const npu_transport_interface_v1 kInterface = {
    NPU_TRANSPORT_INTERFACE_VERSION,
    sizeof(npu_transport_interface_v1),
    "single_rank",
    0,
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

}  // namespace

extern "C" __attribute__((visibility("default"))) const npu_transport_interface_v1*
npu_transport_interface(uint32_t version) {
  return version == NPU_TRANSPORT_INTERFACE_VERSION ? &kInterface : nullptr;
}
