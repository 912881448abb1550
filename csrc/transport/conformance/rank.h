// One rank of a test: an open transport, requests, and what went wrong.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_RANK_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_RANK_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"
#include "csrc/common/status.h"
#include "csrc/transport/conformance/shared_world.h"
#include "csrc/transport/transport.h"

namespace npu_bridge {
namespace conformance {

using Bytes = std::vector<char>;

struct WorldOptions {
  int size = 2;
  std::uint32_t slot_count = 1u << 16;
  std::uint64_t idle_buffer_bytes = std::uint64_t{200} << 20;
  std::uint64_t memory_limit_bytes = 0;
};

// One tensor of a call, with its input in place.
struct CallTensor {
  DataType type = DataType::kFloat32;
  const void* input = nullptr;
  std::uint64_t input_count = 0;
  std::uint64_t result_count = 0;
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> send_displacements;
  std::vector<std::int64_t> receive_counts;
  std::vector<std::int64_t> receive_displacements;
};

class Group;

// A request on its way and its outcome. Outlives both.
class Call {
 public:
  Collective collective = Collective::kAllReduce;
  Reduction reduction = Reduction::kSum;
  std::int32_t root = 0;
  std::int32_t peer = 0;
  std::uint64_t match_id = 0;
  std::uint32_t match_slot = 0;
  std::vector<CallTensor> tensors;
  bool refuse_memory = false;  // allocate() gives none

  Call() = default;
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void Start(const Group& group);
  // Waits for done().
  const Status& Wait();
  bool is_done();

  const void* data(std::size_t tensor) const { return results_[tensor].data; }
  void* data(std::size_t tensor) { return results_[tensor].data; }
  bool is_transports_memory(std::size_t tensor) const {
    return results_[tensor].release != nullptr;
  }
  void Release();
  void Release(std::size_t tensor);

 private:
  static void* Allocate(void* context, std::uint32_t tensor, std::uint64_t bytes);
  static void Done(void* context, const npu_transport_status* status,
                   const npu_transport_result* results);

  std::vector<npu_transport_tensor> c_tensors_;
  std::vector<Bytes> memory_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool done_ = false;
  int done_count_ = 0;
  Status status_;
  std::vector<npu_transport_result> results_;
};

class Group {
 public:
  Group(const npu_transport_interface_v1& interface, void* handle, std::int32_t rank,
        std::int32_t size)
      : rank(rank), size(size), interface_(interface), handle_(handle) {}
  ~Group() { interface_.destroy_group(handle_); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::int32_t rank;
  const std::int32_t size;
  const npu_transport_interface_v1& interface() const { return interface_; }
  void* handle() const { return handle_; }
  void Cancel(std::uint64_t match_id, const Status& reason) const;

 private:
  const npu_transport_interface_v1& interface_;
  void* const handle_;
};

class Rank {
 public:
  Rank(SharedWorld* world, const WorldOptions& options, int index,
       const npu_transport_interface_v1& interface);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Opens the transport and makes the group of all.
  Status Open();
  void Close();

  int index() const { return index_; }
  int size() const { return options_.size; }
  const Group& world() const { return *world_group_; }
  std::unique_ptr<Group> MakeGroup(const std::vector<std::int32_t>& ranks);

  void Barrier() { shared_->Barrier(); }
  SharedWorld& shared() { return *shared_; }
  void RankGone(int rank) { interface_.rank_gone(transport_, rank); }

  // Notes what went wrong; the case goes on.
  void Fail(const std::string& text);
  // False (with a note) when `status` is not ok.
  bool ExpectOk(const Status& status, const std::string& what);
  std::vector<std::string> failures() const { return failures_; }

  // A counter of describe(); -1 when the transport has none of that name.
  std::int64_t Counter(const std::string& name);

 private:
  SharedWorld* const shared_;
  const WorldOptions options_;
  const int index_;
  const npu_transport_interface_v1& interface_;
  npu_transport_services services_;
  void* transport_ = nullptr;
  std::unique_ptr<Group> world_group_;
  std::vector<std::string> failures_;
};

using Body = std::function<void(Rank&)>;

// Makes ranks and runs them.
class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual bool ranks_are_processes() const = 0;
  // Runs `body` on every rank; returns what went wrong. `doomed`: the rank that the case kills,
  // or -1.
  virtual std::vector<std::string> Run(const WorldOptions& options, const Body& body,
                                       int doomed = -1) = 0;
};

// Ranks are threads of this process, or processes forked from it (which must then have no other
// thread). Each opens the transport `name` for itself.
std::unique_ptr<Cluster> MakeThreadCluster(const std::string& transport);
std::unique_ptr<Cluster> MakeProcessCluster(const std::string& transport);

}  // namespace conformance
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_RANK_H_
