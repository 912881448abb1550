// Keeps the list of the processes that wait at a meeting point and puts worlds together.
//
// The first process to open the point runs it, on a thread of its own, as long as it waits there
// itself; then it closes the point, and one of those that still wait opens it anew.
//
// A world forms in two steps. Each member gets the control memory and reports that it is in; when
// all have, the world is decided complete. If a member or the registrar ends before that, it is
// decided aborted, in the control memory, so that all members see the same; they wait on.
#ifndef NPU_BRIDGE_CSRC_COMM_CONTROL_REGISTRAR_H_
#define NPU_BRIDGE_CSRC_COMM_CONTROL_REGISTRAR_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "csrc/comm/control/control_block.h"
#include "csrc/comm/control/fork_guard.h"
#include "csrc/comm/control/matching.h"
#include "csrc/comm/control/wire.h"

namespace npu_bridge {
namespace control {

class Registrar {
 public:
  // Serves the listening socket of the point.
  static Status Start(const std::string& name, OwnedDescriptor listener,
                      std::unique_ptr<Registrar>* registrar);
  // Lets the worlds that are forming finish (or gives them up), and closes the point.
  ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

 private:
  struct FormingWorld;
  struct Guest {
    OwnedDescriptor socket;
    PeerCredentials credentials;
    std::chrono::steady_clock::time_point came;
    bool greeted = false;
    Waiting waiting;                      // valid once greeted
    std::shared_ptr<FormingWorld> world;  // null while it waits
    bool joined = false;
    bool gone = false;  // to be dropped
  };
  struct FormingWorld {
    std::uint64_t serial = 0;
    std::unique_ptr<ControlBlock> block;
    std::vector<Guest*> members;  // in rank order
  };
  using Guests = std::vector<std::unique_ptr<Guest>>;

  Registrar(std::string name, OwnedDescriptor listener);

  void Serve();
  void Poll();
  void Admit();
  void Hear(Guest* guest);
  void Answer(Guest* guest, const Message& message);
  void Greet(Guest* guest, const Message& message);
  void RefuseOtherVersion(Guest* guest, const std::string& version);
  void AnswerSlow(Guest* guest);
  void GiveUp(Guest* guest, const Message& message);
  void Join(Guest* guest, const Message& message);

  void MatchGuests();
  void Form(const std::vector<Guest*>& members);
  bool SendWorld(const FormingWorld& world, const OwnedDescriptor& control_memory);
  void Abort(const std::shared_ptr<FormingWorld>& world);
  void DropGone();

  // The guests that have greeted and are in no world, and what they said.
  std::vector<Guest*> WaitingGuests(std::vector<Waiting>* waiting) const;
  std::chrono::milliseconds Now() const;
  bool IsForming() const;

  const std::string name_;
  OwnedDescriptor listener_;
  const std::chrono::steady_clock::time_point began_;
  std::atomic<bool> stopping_{false};

  // Of the thread alone.
  Guests guests_;
  std::string strangers_;  // processes that were turned away, for the messages of those who wait
  std::uint64_t next_serial_ = 1;
  bool changed_ = false;
  bool out_of_descriptors_ = false;
  MatchOutcome outcome_;

  std::thread thread_;
};

}  // namespace control
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_COMM_CONTROL_REGISTRAR_H_
