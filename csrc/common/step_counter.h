// How many steps begun on this rank could have run an op: the number that keeps one rank's step 3
// from pairing with another's step 4. C++14, since kernels include it.
#ifndef NPU_BRIDGE_CSRC_COMMON_STEP_COUNTER_H_
#define NPU_BRIDGE_CSRC_COMMON_STEP_COUNTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace npu_bridge {

// Who says that a step begins.
enum class StepSource {
  kOwnGraph,  // the graph that holds the op
  kCaller,    // a graph that calls, through functions that are not inlined, the one with the op
};

// The counter of one tag in one group. Any thread may call any member.
//
// `epoch` names what the counts are about (a world between two shutdowns, a group's members); a new
// one starts the count anew, since ranks that have just met have no common past.
class StepCounter {
 public:
  StepCounter() = default;
  StepCounter(const StepCounter&) = delete;
  StepCounter& operator=(const StepCounter&) = delete;

  // A step of a graph begins. Once a caller has counted for this tag, the own graph's markers are
  // ignored: the function's graph has a marker too, but runs only when a branch does not skip it.
  void Begin(std::int64_t step_id, std::uint64_t epoch, StepSource source);

  // The count of the step `step_id`; the latest count where the step is not known (an op in a
  // function that is not inlined runs under a step id of its own); 0 before any step.
  std::uint64_t Find(std::int64_t step_id) const;

  // Counts a call that belongs to no graph, and returns its number.
  std::uint64_t NextCall(std::uint64_t epoch);

 private:
  struct Step {
    std::int64_t id = 0;
    std::uint64_t count = 0;
  };
  // Steps that may run at once, each from a thread of its own, and still find their count.
  static constexpr std::size_t kStepsRemembered = 64;

  void Advance(std::uint64_t epoch);

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::uint64_t epoch_ = 0;
  bool counted_by_caller_ = false;
  std::array<Step, kStepsRemembered> steps_;  // ring; steps_[count_ % size] is the latest
};

// The process's counter for `tag` in `group`, made at first use; lives until the process ends.
// There is one for each distinct tag, however many steps run.
StepCounter& StepCounterFor(const std::string& group, const std::string& tag);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMMON_STEP_COUNTER_H_
