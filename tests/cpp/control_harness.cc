#include "tests/cpp/control_harness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <set>

namespace npu_bridge {
namespace control {
namespace {

// A kill limit, not an expectation.
constexpr int kLimitMs = 60000;

// The test's ends of all pipes: each child closes them, so that it holds no other child's.
std::set<int>& ParentEnds() {
  static auto* const ends = new std::set<int>;
  return *ends;
}

void MakePipe(int* ends) {
  if (::pipe2(ends, O_CLOEXEC) != 0) ::_exit(99);
}

}  // namespace

void TestLine::Say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(out_, text.data(), text.size()) < 0) ::_exit(98);
}

void TestLine::Hear() {
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::read(in_, &byte, 1);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) ::_exit(97);  // the test is gone
}

TestProcess::TestProcess(const Body& body) {
  int to[2];
  int from[2];
  int error[2];
  MakePipe(to);
  MakePipe(from);
  MakePipe(error);
  ::fflush(nullptr);  // or the child would write it once more
  const bool failed_before = testing::Test::HasFailure();
  pid_ = ::fork();
  if (pid_ == 0) {
    for (const int end : ParentEnds()) ::close(end);
    ::close(to[1]);
    ::close(from[0]);
    ::close(error[0]);
    ::dup2(error[1], STDERR_FILENO);
    ::close(error[1]);
    TestLine line(to[0], from[1]);
    body(line);
    ::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() && !failed_before ? 1 : 0);
  }
  ::close(to[0]);
  ::close(from[1]);
  ::close(error[1]);
  to_ = to[1];
  from_ = from[0];
  error_ = error[0];
  ParentEnds().insert({to_, from_, error_});
}

TestProcess::~TestProcess() {
  if (!waited_) Kill();
  for (const int end : {to_, from_, error_}) {
    ParentEnds().erase(end);
    ::close(end);
  }
}

std::string TestProcess::ReadLine(int descriptor, std::string* rest) const {
  while (rest->find('\n') == std::string::npos) {
    pollfd readable = {descriptor, POLLIN, 0};
    char buffer[4096];
    const ssize_t got =
        ::poll(&readable, 1, kLimitMs) == 1 ? ::read(descriptor, buffer, sizeof buffer) : -1;
    if (got <= 0) {
      siginfo_t end = {};
      if (got == 0) ::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOWAIT);
      ADD_FAILURE() << "process " << pid_ << (got == 0 ? " ended" : " said nothing for long")
                    << " (code " << end.si_code << ", status " << end.si_status
                    << ") after: " << *rest;
      return std::string();
    }
    rest->append(buffer, static_cast<std::size_t>(got));
  }
  const std::size_t end = rest->find('\n');
  std::string line = rest->substr(0, end);
  rest->erase(0, end + 1);
  return line;
}

std::string TestProcess::Read() { return ReadLine(from_, &rest_); }

std::string TestProcess::ReadError() { return ReadLine(error_, &error_rest_); }

void TestProcess::GoOn() {
  if (::write(to_, "g", 1) != 1) ADD_FAILURE() << "process " << pid_ << " does not listen";
}

void TestProcess::Stop() const {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
}

void TestProcess::Kill() {
  ::kill(pid_, SIGKILL);
  Wait();
}

int TestProcess::Wait() {
  if (waited_) return -1;
  int status = 0;
  pid_t got = 0;
  // Not forever: a child that hangs fails the test by name.
  for (int waited_ms = 0; got == 0 && waited_ms < kLimitMs; waited_ms += 5) {
    got = ::waitpid(pid_, &status, WNOHANG);
    if (got == 0) ::poll(nullptr, 0, 5);
  }
  if (got != pid_) {
    ADD_FAILURE() << "process " << pid_ << " does not end";
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
  }
  waited_ = true;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  // Killed by the test, or failed by itself.
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
    ADD_FAILURE() << "process " << pid_ << " died of signal " << WTERMSIG(status);
  }
  if (code > 0) {
    // What the sanitizers and expectations of the child wrote.
    char buffer[65536];
    ::fcntl(error_, F_SETFL, O_NONBLOCK);
    const ssize_t length = ::read(error_, buffer, sizeof buffer);
    ADD_FAILURE() << "process " << pid_ << " failed with " << code << ": " << error_rest_
                  << std::string(buffer, static_cast<std::size_t>(length > 0 ? length : 0));
  }
  return code;
}

std::string FreshIdentity() {
  static int count = 0;
  return "test-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

ClusterDescription Rank(const std::string& identity, std::int32_t rank, std::int32_t size) {
  ClusterDescription cluster;
  cluster.identity = identity;
  cluster.rank = rank;
  cluster.size = size;
  return cluster;
}

Status Meet(const ClusterDescription& cluster, const Settings& settings,
            std::unique_ptr<HostChannel>* channel) {
  const std::atomic<bool> interrupted{false};
  return MeetOnHost(cluster, settings, interrupted, channel);
}

Status Meet(const ClusterDescription& cluster, std::unique_ptr<HostChannel>* channel) {
  return Meet(cluster, Settings(), channel);
}

std::string Describe(const Status& status, const HostChannel* channel) {
  if (!status.ok()) {
    return "error " + std::to_string(static_cast<int>(status.code())) + ": " + status.message();
  }
  std::string text = "met " + std::to_string(channel->membership().rank) + ":";
  for (const pid_t process : channel->membership().process_ids) {
    text += " " + std::to_string(process);
  }
  return text;
}

std::unique_ptr<TestProcess> StartRank(const ClusterDescription& cluster,
                                       const Settings& settings) {
  return std::make_unique<TestProcess>([&](TestLine& line) {
    std::unique_ptr<HostChannel> channel;
    const Status status = Meet(cluster, settings, &channel);
    line.Say(Describe(status, channel.get()));
    line.Hear();
    if (channel != nullptr) channel->Leave();
  });
}

std::unique_ptr<TestProcess> StartRank(const ClusterDescription& cluster) {
  return StartRank(cluster, Settings());
}

Processes StartWorld(std::int32_t size,
                     const std::function<void(HostChannel& channel, TestLine& line)>& body) {
  const std::string identity = FreshIdentity();
  Processes members;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    members.push_back(std::make_unique<TestProcess>([&, rank](TestLine& line) {
      std::unique_ptr<HostChannel> channel;
      const Status met = Meet(Rank(identity, rank, size), &channel);
      ASSERT_TRUE(met.ok()) << met.message();
      body(*channel, line);
    }));
  }
  return members;
}

std::string Met(std::int32_t rank, const std::vector<std::unique_ptr<TestProcess>>& members) {
  std::string text = "met " + std::to_string(rank) + ":";
  for (const auto& member : members) text += " " + std::to_string(member->pid());
  return text;
}

void InChild(const std::function<void()>& body) {
  TestProcess process([&](TestLine&) { body(); });
  EXPECT_EQ(process.Wait(), 0);
}

}  // namespace control
}  // namespace npu_bridge
