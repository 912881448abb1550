// What a rank knows of its job and of its limits before it meets the others. Python reads the
// environment and the rank table, checks them and fills this in: native code reads no environment.
#ifndef NPU_BRIDGE_CSRC_COMMON_SETTINGS_H_
#define NPU_BRIDGE_CSRC_COMMON_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace npu_bridge {

struct Settings {
  std::int64_t connect_timeout_s = 120;
  std::int64_t exec_timeout_s = 1836;  // 0: for ever
  std::int64_t mismatch_timeout_s = 20;
  std::int64_t stall_warn_s = 60;
  std::int64_t slow_start_s = 5;
  std::int64_t buffer_size_mb = 200;
  std::int64_t pool_limit_mb = 0;  // 0: none
  std::string transport = "auto";
};

struct ClusterDescription {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  // Text that is equal on all ranks of a job and differs between jobs where that is known (JOB_ID,
  // size, digest of the rank table, CM_*). It names the meeting point on a host.
  std::string identity;
  // A sentence for the error when not all ranks meet on this host: what the rank table says about
  // where the absent ones are. Index: rank. May be empty.
  std::vector<std::string> rank_locations;

  // CM_*: ranks have no number until they meet; they are numbered by (worker_address, device) with
  // the chief's address first. `rank` is then set by the meeting.
  bool unnumbered = false;
  std::int32_t device = 0;
  std::string worker_address;
  std::string chief_address;
  std::int32_t chief_device = 0;
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_SETTINGS_H_
