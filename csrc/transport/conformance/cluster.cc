#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "csrc/transport/conformance/rank.h"
#include "csrc/transport/registry.h"

namespace npu_bridge {
namespace conformance {
namespace {

// The harness's limit: ranks that have not ended by then are killed, and the case has failed.
constexpr std::chrono::seconds kKillLimit{240};

std::vector<std::string> RunRank(SharedWorld* world, const WorldOptions& options, int index,
                                 const npu_transport_interface_v1& interface, const Body& body) {
  Rank rank(world, options, index, interface);
  if (rank.ExpectOk(rank.Open(), "open")) {
    world->Barrier();
    body(rank);
  } else {
    world->MarkDead(index);
  }
  rank.Close();
  return rank.failures();
}

class ThreadCluster : public Cluster {
 public:
  explicit ThreadCluster(std::string transport) : transport_(std::move(transport)) {}
  bool ranks_are_processes() const override { return false; }

  std::vector<std::string> Run(const WorldOptions& options, const Body& body, int) override {
    const npu_transport_interface_v1* interface = nullptr;
    const Status found = FindTransport(transport_, &interface);
    if (!found.ok()) return {found.message()};
    SharedWorld world(options.size);
    std::mutex mutex;
    std::vector<std::string> failures;
    std::vector<std::thread> threads;
    for (int index = 0; index < options.size; ++index) {
      threads.emplace_back([&, index] {
        const std::vector<std::string> found_here =
            RunRank(&world, options, index, *interface, body);
        std::lock_guard<std::mutex> lock(mutex);
        failures.insert(failures.end(), found_here.begin(), found_here.end());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures;
  }

 private:
  const std::string transport_;
};

struct Child {
  pid_t process = -1;
  int output = -1;
  std::string text;
};

class ProcessCluster : public Cluster {
 public:
  explicit ProcessCluster(std::string transport) : transport_(std::move(transport)) {}
  bool ranks_are_processes() const override { return true; }

  std::vector<std::string> Run(const WorldOptions& options, const Body& body, int doomed) override {
    const npu_transport_interface_v1* interface = nullptr;
    const Status found = FindTransport(transport_, &interface);
    if (!found.ok()) return {found.message()};
    SharedWorld world(options.size);
    std::vector<Child> children(static_cast<std::size_t>(options.size));
    for (int index = 0; index < options.size; ++index) {
      int ends[2];
      if (pipe(ends) != 0) return {"no pipe for a rank"};
      const pid_t process = fork();
      if (process == 0) {
        close(ends[0]);
        for (const Child& earlier : children) {
          if (earlier.output >= 0) close(earlier.output);
        }
        _exit(RunChild(&world, options, index, *interface, body, ends[1]));
      }
      close(ends[1]);
      children[static_cast<std::size_t>(index)] = {process, ends[0], ""};
    }
    return Collect(&world, &children, doomed);
  }

 private:
  static int RunChild(SharedWorld* world, const WorldOptions& options, int index,
                      const npu_transport_interface_v1& interface, const Body& body, int output) {
    for (const std::string& failure : RunRank(world, options, index, interface, body)) {
      const std::string line = failure + "\n";
      if (write(output, line.data(), line.size()) < 0) return 2;
    }
    return 0;
  }

  // Reads what the ranks say until each has closed its pipe, which is when it has ended.
  static std::vector<std::string> Collect(SharedWorld* world, std::vector<Child>* children,
                                          int doomed) {
    std::vector<std::string> failures;
    const auto deadline = std::chrono::steady_clock::now() + kKillLimit;
    std::size_t open = children->size();
    while (open > 0) {
      std::vector<pollfd> polled;
      for (const Child& child : *children) polled.push_back({child.output, POLLIN, 0});
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      const int ready = left.count() <= 0
                            ? 0
                            : poll(polled.data(), polled.size(), static_cast<int>(left.count()));
      if (ready <= 0) {
        failures.push_back("the ranks did not end in time and were killed");
        for (const Child& child : *children) {
          if (child.output >= 0) kill(child.process, SIGKILL);
        }
      }
      for (std::size_t index = 0; index < children->size(); ++index) {
        Child& child = (*children)[index];
        if (child.output < 0 || (ready > 0 && polled[index].revents == 0)) continue;
        char text[4096];
        const ssize_t length = read(child.output, text, sizeof(text));
        if (length > 0) {
          child.text.append(text, static_cast<std::size_t>(length));
          continue;
        }
        close(child.output);
        child.output = -1;
        --open;
        int status = 0;
        waitpid(child.process, &status, 0);
        world->MarkDead(static_cast<int>(index));
        const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        const bool is_doomed = static_cast<int>(index) == doomed;
        if (is_doomed ? !killed : status != 0) {
          failures.push_back("rank " + std::to_string(index) + " ended with wait status " +
                             std::to_string(status));
        }
        if (!child.text.empty()) failures.push_back(child.text);
      }
    }
    return failures;
  }

  const std::string transport_;
};

}  // namespace

std::unique_ptr<Cluster> MakeThreadCluster(const std::string& transport) {
  return std::make_unique<ThreadCluster>(transport);
}

std::unique_ptr<Cluster> MakeProcessCluster(const std::string& transport) {
  return std::make_unique<ProcessCluster>(transport);
}

}  // namespace conformance
}  // namespace npu_bridge
