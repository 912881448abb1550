#include "csrc/common/step_counter.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

namespace npu_bridge {

constexpr std::size_t StepCounter::kStepsRemembered;

void StepCounter::Advance(std::uint64_t epoch) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    count_ = 0;
  }
  ++count_;
}

void StepCounter::Begin(std::int64_t step_id, std::uint64_t epoch, StepSource source) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (source == StepSource::kCaller) {
    counted_by_caller_ = true;
  } else if (counted_by_caller_) {
    return;
  }
  Advance(epoch);
  Step& step = steps_[count_ % kStepsRemembered];
  step.id = step_id;
  step.count = count_;
}

std::uint64_t StepCounter::Find(std::int64_t step_id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  // Latest first: step ids of a session repeat those of another session.
  const std::uint64_t remembered = std::min<std::uint64_t>(count_, kStepsRemembered);
  for (std::uint64_t back = 0; back < remembered; ++back) {
    const Step& step = steps_[(count_ - back) % kStepsRemembered];
    if (step.id == step_id) return step.count;
  }
  return count_;
}

std::uint64_t StepCounter::NextCall(std::uint64_t epoch) {
  std::lock_guard<std::mutex> lock(mutex_);
  Advance(epoch);
  return count_;
}

StepCounter& StepCounterFor(const std::string& group, const std::string& tag) {
  // Never destroyed: kernels of other threads may outlive static destructors.
  static std::mutex* const mutex = new std::mutex;
  static auto* const counters = new std::unordered_map<std::string, std::unique_ptr<StepCounter>>;
  std::string key = group;
  key += '\0';
  key += tag;
  std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<StepCounter>& counter = (*counters)[key];
  if (counter == nullptr) counter.reset(new StepCounter);
  return *counter;
}

}  // namespace npu_bridge
