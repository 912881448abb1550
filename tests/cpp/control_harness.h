// Real processes as ranks, for the tests of comm/control.
//
// The test's own process stays free of the library, since children of a process that uses it cannot
// (process_events.h): whatever is tested runs in a child.
#ifndef NPU_BRIDGE_TESTS_CPP_CONTROL_HARNESS_H_
#define NPU_BRIDGE_TESTS_CPP_CONTROL_HARNESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/comm/control/host_channel.h"

namespace npu_bridge {
namespace control {

// The child's side of the pipes to the test.
class TestLine {
 public:
  TestLine(int in, int out) : in_(in), out_(out) {}
  void Say(const std::string& line);
  // Waits until the test says go on.
  void Hear();

 private:
  int in_;
  int out_;
};

class TestProcess {
 public:
  using Body = std::function<void(TestLine&)>;

  // Forks; the child runs `body` and exits with 0 if no expectation failed in it.
  explicit TestProcess(const Body& body);
  // Kills the child if it still runs.
  ~TestProcess();
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The next line that the child said. Fails the test when it ends, or says nothing for long.
  std::string Read();
  // The same from its standard error.
  std::string ReadError();
  void GoOn();
  // Returns when it is stopped.
  void Stop() const;
  // Kills it and returns when it is gone.
  void Kill();
  // Waits for the end of the child; its exit code, or -1 when it was killed.
  int Wait();

 private:
  std::string ReadLine(int descriptor, std::string* rest) const;

  pid_t pid_ = -1;
  bool waited_ = false;
  int to_ = -1;
  int from_ = -1;
  int error_ = -1;
  std::string rest_;
  std::string error_rest_;
};

// A name that no other test uses at the same time.
std::string FreshIdentity();

ClusterDescription Rank(const std::string& identity, std::int32_t rank, std::int32_t size);

// Meets with short limits; says "met RANK: PID PID ..." or "error CODE: TEXT".
Status Meet(const ClusterDescription& cluster, std::unique_ptr<HostChannel>* channel);
Status Meet(const ClusterDescription& cluster, const Settings& settings,
            std::unique_ptr<HostChannel>* channel);
std::string Describe(const Status& status, const HostChannel* channel);

// A process that meets, says what came of it (Describe), waits for the test, and leaves.
std::unique_ptr<TestProcess> StartRank(const ClusterDescription& cluster);
std::unique_ptr<TestProcess> StartRank(const ClusterDescription& cluster, const Settings& settings);

// The ranks of one world; each runs `body` once it has met the others.
using Processes = std::vector<std::unique_ptr<TestProcess>>;
Processes StartWorld(std::int32_t size,
                     const std::function<void(HostChannel& channel, TestLine& line)>& body);

// "met RANK: PID PID ..." as Describe gives it.
std::string Met(std::int32_t rank, const std::vector<std::unique_ptr<TestProcess>>& members);

// Runs the body in a child and expects it to end without a failed expectation.
void InChild(const std::function<void()>& body);

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_TESTS_CPP_CONTROL_HARNESS_H_
