// For transports written in C++: statuses and exceptions at the C interface.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_C_BOUNDARY_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_C_BOUNDARY_H_

#include <cstring>
#include <exception>
#include <new>

#include "csrc/common/status.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {

// Texts that are too long are cut; the message is always terminated.
inline void CopyStatus(const Status& status, npu_transport_status* out) {
  if (out == nullptr) return;
  out->code = static_cast<std::int32_t>(status.code());
  const std::size_t length = status.message().copy(out->message, sizeof(out->message) - 1);
  out->message[length] = '\0';
}

inline Status ToStatus(const npu_transport_status& status) {
  const std::size_t length = strnlen(status.message, sizeof(status.message));
  return Status(static_cast<StatusCode>(status.code), std::string(status.message, length));
}

// Runs `body`, which returns a Status, and lets no exception across the boundary.
template <typename Body>
Status Guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory");
  } catch (const std::exception& error) {
    return Internal(error.what());
  } catch (...) {
    return Internal("unknown C++ exception");
  }
}

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_C_BOUNDARY_H_
