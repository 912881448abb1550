// Who else may come to a meeting point, or hold it: garbage, other builds, other users, and
// registrars that end half way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "csrc/comm/control/control_block.h"
#include "csrc/comm/control/meeting_point.h"
#include "csrc/comm/control/messages.h"
#include "csrc/comm/control/wire.h"
#include "tests/cpp/control_harness.h"

namespace npu_bridge {
namespace control {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kMagic = 0x4255504e;

Settings Announced() {
  Settings settings;
  settings.slow_start_s = 0;
  return settings;
}

// A message with a header of our own making.
std::string Raw(std::uint32_t magic, std::uint32_t version, MessageType type,
                const std::string& payload) {
  return Writer()
             .Number(magic)
             .Number(version)
             .Number(static_cast<std::uint32_t>(type))
             .Number(static_cast<std::uint32_t>(payload.size()))
             .text() +
         payload;
}

void WaitReadable(int socket) {
  pollfd readable = {socket, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 60000), 1);
}

OwnedDescriptor Connect(const std::string& name) {
  OwnedDescriptor socket;
  Status status;
  EXPECT_EQ(ConnectTo(name, &socket, &status), Reached::kYes);
  return socket;
}

// Sends the bytes as a guest, and returns when the registrar has closed the connection.
void SendAndBeTurnedAway(const std::string& name, const std::string& bytes) {
  const OwnedDescriptor socket = Connect(name);
  EXPECT_GT(::send(socket.get(), bytes.data(), bytes.size(), 0), 0);
  char byte = 0;
  do {
    WaitReadable(socket.get());
  } while (::recv(socket.get(), &byte, 1, 0) > 0);
}

TEST(ControlStrangers, GarbageHarmsNobody) {
  const std::string identity = FreshIdentity();
  Processes members(2);
  members[0] = StartRank(Rank(identity, 0, 2), Announced());
  members[0]->ReadError();
  InChild([&] {
    const std::string name = MeetingPointName(identity);
    const OwnedDescriptor silent = Connect(name);
    SendAndBeTurnedAway(name, "GET / HTTP/1.1\r\n\r\n");
    SendAndBeTurnedAway(name, std::string(16, '\0'));
    SendAndBeTurnedAway(name, std::string(170 * 1024, 'x'));
    SendAndBeTurnedAway(name, Raw(kMagic, kProtocolVersion, MessageType::kJoined, ""));
    SendAndBeTurnedAway(name, Raw(kMagic, kProtocolVersion, MessageType::kHello, "x"));
    // Lengths that lie.
    SendAndBeTurnedAway(name, Raw(kMagic, kProtocolVersion, MessageType::kHello, "") + "x");
    Claim claim;
    claim.rank = 7;
    claim.size = 2;
    SendAndBeTurnedAway(name, Raw(kMagic, kProtocolVersion, MessageType::kHello,
                                  EncodeHello(claim, BuildVersion())));
    // Another's process id.
    claim.rank = 1;
    claim.process = DescribeOwnProcess();
    claim.process.process = ::getppid();
    SendAndBeTurnedAway(name, Raw(kMagic, kProtocolVersion, MessageType::kHello,
                                  EncodeHello(claim, BuildVersion())));
    // Descriptors that nobody asked for, and a rank that leaves without a word.
    claim.process = DescribeOwnProcess();
    const OwnedDescriptor socket = Connect(name);
    EXPECT_TRUE(Send(socket.get(), MessageType::kHello, EncodeHello(claim, BuildVersion()),
                     {STDIN_FILENO, STDOUT_FILENO}, 0));
  });
  members[1] = StartRank(Rank(identity, 1, 2));
  EXPECT_EQ(members[0]->Read(), Met(0, members));
  EXPECT_EQ(members[1]->Read(), Met(1, members));
}

TEST(ControlStrangers, AnotherBuildIsToldSoAndRemembered) {
  const std::string identity = FreshIdentity();
  const auto last = StartRank(Rank(identity, 2, 3), Announced());
  last->ReadError();
  TestProcess stranger([&](TestLine& line) {
    const OwnedDescriptor socket = Connect(MeetingPointName(identity));
    const std::string bytes = Raw(kMagic, kProtocolVersion + 1, MessageType::kHello, "whatever");
    EXPECT_GT(::send(socket.get(), bytes.data(), bytes.size(), 0), 0);
    WaitReadable(socket.get());
    Message message;
    std::uint32_t version = 0;
    EXPECT_EQ(Receive(socket.get(), &message, &version), Received::kMessage);
    EXPECT_EQ(message.type, MessageType::kError);
    line.Say(DecodeError(message.payload).message());
  });
  EXPECT_THAT(stranger.Read(), AllOf(StartsWith("process " + std::to_string(last->pid())),
                                     HasSubstr("another build of npu_bridge")));
  EXPECT_EQ(stranger.Wait(), 0);
  TestProcess other_version([&](TestLine& line) {
    Claim claim;
    claim.size = 3;
    claim.process = DescribeOwnProcess();
    const OwnedDescriptor socket = Connect(MeetingPointName(identity));
    EXPECT_TRUE(Send(socket.get(), MessageType::kHello, EncodeHello(claim, "0.0.0-other")));
    WaitReadable(socket.get());
    Message message;
    std::uint32_t version = 0;
    EXPECT_EQ(Receive(socket.get(), &message, &version), Received::kMessage);
    line.Say(DecodeError(message.payload).message());
  });
  EXPECT_THAT(other_version.Read(), HasSubstr("here: version 0.0.0-other"));
  const auto lowest = StartRank(Rank(identity, 1, 3), Announced());
  EXPECT_THAT(lowest->ReadError(),
              HasSubstr("process " + std::to_string(stranger.pid()) + " of another build"));
}

TEST(ControlStrangers, AnotherUserIsTurnedAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  const std::string identity = FreshIdentity();
  Processes members(2);
  members[0] = StartRank(Rank(identity, 0, 2), Announced());
  members[0]->ReadError();
  TestProcess stranger([&](TestLine& line) {
    const std::string name = MeetingPointName(identity);
    EXPECT_EQ(::setuid(65534), 0);
    const OwnedDescriptor socket = Connect(name);
    line.Say(CheckSameUser(socket.get(), name, "holds").message());
    WaitReadable(socket.get());
    Message message;
    std::uint32_t version = 0;
    EXPECT_EQ(Receive(socket.get(), &message, &version), Received::kMessage);
    line.Say(DecodeError(message.payload).message());
  });
  EXPECT_THAT(stranger.Read(),
              AllOf(HasSubstr("which holds the meeting point @"),
                    HasSubstr("belongs to user id 0, not to this user (id 65534)")));
  EXPECT_THAT(stranger.Read(), AllOf(HasSubstr("which came to the meeting point @"),
                                     HasSubstr("belongs to user id 65534")));
  members[1] = StartRank(Rank(identity, 1, 2));
  EXPECT_EQ(members[0]->Read(), Met(0, members));
}

// A process that holds the point and answers the first greeting with `bytes`.
std::unique_ptr<TestProcess> HoldPoint(const std::string& identity, const std::string& bytes,
                                       bool as_another_user = false) {
  auto holder = std::make_unique<TestProcess>([=](TestLine& line) {
    const std::string name = MeetingPointName(identity);
    if (as_another_user) {
      EXPECT_EQ(::setuid(65534), 0);
    }
    OwnedDescriptor listener;
    Status status;
    EXPECT_EQ(ListenAt(name, &listener, &status), Reached::kYes);
    line.Say("ready");
    WaitReadable(listener.get());
    const int guest = ::accept(listener.get(), nullptr, nullptr);
    WaitReadable(guest);
    if (!bytes.empty()) {
      EXPECT_GT(::send(guest, bytes.data(), bytes.size(), 0), 0);
    }
    line.Hear();
  });
  EXPECT_EQ(holder->Read(), "ready");
  return holder;
}

TEST(ControlStrangers, AHolderThatIsNoRegistrarIsNamed) {
  Settings hasty;
  hasty.connect_timeout_s = 0;
  const auto expect = [&](const std::string& bytes, const Settings& settings,
                          const std::string& text) {
    const std::string identity = FreshIdentity();
    const auto holder = HoldPoint(identity, bytes);
    EXPECT_THAT(StartRank(Rank(identity, 0, 2), settings)->Read(),
                AllOf(HasSubstr("process " + std::to_string(holder->pid())), HasSubstr(text)));
  };
  expect("220 mail.example.com ESMTP", Settings(), "does not speak the language of npu_bridge");
  expect(Raw(kMagic, 9, MessageType::kWorld, "?"), Settings(), "speaks protocol 9");
  expect(Raw(kMagic, kProtocolVersion, MessageType::kComplete, ""), Settings(),
         "not for a rank that waits");
  expect(Raw(kMagic, kProtocolVersion, MessageType::kWorld, "?"), Settings(),
         "a world that this rank did not ask for");
  expect(Raw(kMagic, kProtocolVersion, MessageType::kLinks, "?"), Settings(),
         "sockets that do not fit");
  expect(Raw(kMagic, kProtocolVersion, MessageType::kTimedOut, "?"), Settings(), "cannot be read");
  expect("", hasty, "It may be stopped");
}

TEST(ControlStrangers, AnErrorOfAnotherBuildIsPassedOn) {
  const std::string identity = FreshIdentity();
  const std::string payload =
      Writer().Number<std::int32_t>(9).Text("runs a newer build, see there").text();
  const auto holder = HoldPoint(identity, Raw(kMagic, 77, MessageType::kError, payload));
  EXPECT_EQ(StartRank(Rank(identity, 0, 2))->Read(), "error 9: runs a newer build, see there");
}

TEST(ControlStrangers, AHolderOfAnotherUserIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  const std::string identity = FreshIdentity();
  const auto holder = HoldPoint(identity, "", true);
  EXPECT_THAT(StartRank(Rank(identity, 0, 2))->Read(),
              AllOf(HasSubstr("process " + std::to_string(holder->pid()) + ", which holds"),
                    HasSubstr("belongs to user id 65534"), HasSubstr("JOB_ID")));
}

// A registrar that forms a world of two and ends before the members know that it is complete.
void EndHalfWay(const std::string& identity, bool complete, TestLine& line) {
  OwnedDescriptor listener;
  Status status;
  ASSERT_EQ(ListenAt(MeetingPointName(identity), &listener, &status), Reached::kYes);
  line.Say("ready");
  std::array<int, 2> guests;
  WorldMessage world;
  world.members.resize(2);
  for (int i = 0; i < 2; ++i) {
    WaitReadable(listener.get());
    const int guest = ::accept(listener.get(), nullptr, nullptr);
    WaitReadable(guest);
    Message hello;
    std::uint32_t version = 0;
    ASSERT_EQ(Receive(guest, &hello, &version), Received::kMessage);
    Claim claim;
    std::string build;
    ASSERT_TRUE(DecodeHello(hello.payload, &claim, &build).ok());
    const auto rank = static_cast<std::size_t>(claim.rank);
    guests[rank] = guest;
    world.members[rank] = {claim.process.process, claim.process.pid_namespace,
                           claim.process.start_time};
  }
  OwnedDescriptor memory;
  std::unique_ptr<ControlBlock> block;
  ASSERT_TRUE(ControlBlock::Create(2, &memory, &block).ok());
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  ASSERT_TRUE(Send(guests[0], MessageType::kLinks, EncodeLinks({1}), {ends[0]}, 0));
  ASSERT_TRUE(Send(guests[0], MessageType::kWorld, EncodeWorld(world), {memory.get()}, 0));
  world.rank = 1;
  ASSERT_TRUE(Send(guests[1], MessageType::kWorld, EncodeWorld(world), {memory.get(), ends[1]}, 0));
  for (const int guest : guests) {
    WaitReadable(guest);
    Message joined;
    std::uint32_t version = 0;
    ASSERT_EQ(Receive(guest, &joined, &version), Received::kMessage);
    ASSERT_EQ(joined.type, MessageType::kJoined);
  }
  if (complete) block->Decide(WorldPhase::kComplete);
}

TEST(ControlStrangers, ARegistrarThatEndsHalfWayIsReplaced) {
  for (const bool complete : {false, true}) {
    const std::string identity = FreshIdentity();
    TestProcess registrar([&](TestLine& line) { EndHalfWay(identity, complete, line); });
    ASSERT_EQ(registrar.Read(), "ready");
    Processes members;
    members.push_back(StartRank(Rank(identity, 0, 2)));
    members.push_back(StartRank(Rank(identity, 1, 2)));
    EXPECT_EQ(registrar.Wait(), 0);
    EXPECT_EQ(members[0]->Read(), Met(0, members));
    EXPECT_EQ(members[1]->Read(), Met(1, members));
  }
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
