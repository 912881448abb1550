// Messages: what was written is read, and nothing else is taken for a message.
#include "csrc/comm/control/wire.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <string>

#include "csrc/comm/control/messages.h"
#include "csrc/comm/control/segment_store.h"
#include "tests/cpp/control_harness.h"

namespace npu_bridge {
namespace control {
namespace {

Claim SomeClaim() {
  Claim claim;
  claim.rank = 2;
  claim.size = 4;
  claim.worker_address = "10.0.0.1";
  claim.chief_address = "fe80::1";
  claim.process.process = 4711;
  claim.process.command_text = "python train.py";
  return claim;
}

struct SocketPair {
  SocketPair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0); }
  ~SocketPair() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  int ends[2];
};

TEST(ControlWire, HelloComesThrough) {
  Claim read;
  std::string build;
  ASSERT_TRUE(DecodeHello(EncodeHello(SomeClaim(), "1.2"), &read, &build).ok());
  EXPECT_EQ(build, "1.2");
  EXPECT_EQ(read.rank, 2);
  EXPECT_EQ(read.size, 4);
  EXPECT_EQ(read.chief_address, "fe80::1");
  EXPECT_EQ(read.process.process, 4711);
  EXPECT_EQ(read.process.command_text, "python train.py");
}

TEST(ControlWire, EveryCutAndEveryAdditionIsRefused) {
  WorldMessage world;
  world.members.resize(3);
  Attendance attendance;
  attendance.missing = {1, 2};
  attendance.present = "rank 0";
  const std::string hello = EncodeHello(SomeClaim(), "1");
  const std::string world_text = EncodeWorld(world);
  const std::string attendance_text = EncodeAttendance(attendance);
  const std::string links = EncodeLinks({1, 2});
  Claim claim;
  std::string build;
  std::vector<std::int32_t> ranks;
  for (std::size_t i = 0; i < hello.size(); ++i) {
    EXPECT_FALSE(DecodeHello(hello.substr(0, i), &claim, &build).ok());
  }
  EXPECT_FALSE(DecodeHello(hello + "x", &claim, &build).ok());
  for (std::size_t i = 0; i < world_text.size(); ++i) {
    EXPECT_FALSE(DecodeWorld(world_text.substr(0, i), &world));
  }
  for (std::size_t i = 0; i < attendance_text.size(); ++i) {
    EXPECT_FALSE(DecodeAttendance(attendance_text.substr(0, i), &attendance));
  }
  for (std::size_t i = 0; i < links.size(); ++i) {
    EXPECT_FALSE(DecodeLinks(links.substr(0, i), &ranks));
  }
  EXPECT_FALSE(DecodeLinks(EncodeLinks({0}), &ranks));
}

TEST(ControlWire, ChangedBytesNeverHarm) {
  std::mt19937 random(1);
  const std::string hello = EncodeHello(SomeClaim(), "1");
  for (int round = 0; round < 20000; ++round) {
    std::string text = hello;
    for (int change = 0; change < 4; ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    Claim claim;
    std::string build;
    if (DecodeHello(text, &claim, &build).ok()) {
      EXPECT_TRUE(CheckClaim(claim).ok());
    }
    WorldMessage world;
    Attendance attendance;
    DecodeWorld(text, &world);
    DecodeAttendance(text, &attendance);
    DecodeError(text);
  }
}

TEST(ControlWire, ClaimsOutsideTheirWorldAreRefused) {
  Claim claim = SomeClaim();
  claim.rank = claim.size;
  EXPECT_THAT(CheckClaim(claim).message(), testing::HasSubstr("numbered 0 to 3"));
  claim.rank = -1;
  EXPECT_FALSE(CheckClaim(claim).ok());
  claim.rank = 0;
  claim.size = 0;
  EXPECT_FALSE(CheckClaim(claim).ok());
  claim.size = kMostRanks + 1;
  EXPECT_FALSE(CheckClaim(claim).ok());
}

TEST(ControlWire, StrangersAreToldApart) {
  InChild([] {
    SocketPair sockets;
    Message message;
    std::uint32_t version = 0;
    EXPECT_EQ(Receive(sockets.ends[1], &message, &version), Received::kNothing);

    ASSERT_GT(::send(sockets.ends[0], "hello there, I am no rank", 25, 0), 0);
    EXPECT_EQ(Receive(sockets.ends[1], &message, &version), Received::kGarbage);

    const std::string huge(180 * 1024, 'x');
    ASSERT_GT(::send(sockets.ends[0], huge.data(), huge.size(), 0), 0);
    EXPECT_EQ(Receive(sockets.ends[1], &message, &version), Received::kGarbage);
    EXPECT_FALSE(Send(sockets.ends[0], MessageType::kHello, huge));
  });
}

TEST(ControlWire, DescriptorsTravelAndCloseOnExec) {
  InChild([] {
    SocketPair sockets;
    SegmentStore store;
    OwnedDescriptor segment;
    ASSERT_TRUE(store.Share("a", 4096, &segment).ok());
    ASSERT_TRUE(Send(sockets.ends[0], MessageType::kShared, "x", {segment.get()}, 0));
    Message message;
    std::uint32_t version = 0;
    ASSERT_EQ(Receive(sockets.ends[1], &message, &version), Received::kMessage);
    EXPECT_EQ(message.payload, "x");
    ASSERT_EQ(message.descriptors.size(), 1U);
    EXPECT_EQ(::fcntl(message.descriptors[0].get(), F_GETFD), FD_CLOEXEC);
  });
}

TEST(ControlWire, AnErrorKeepsItsText) {
  InChild([] {
    SocketPair sockets;
    ASSERT_TRUE(SendError(sockets.ends[0], InvalidArgument("what and why")));
    Message message;
    std::uint32_t version = 0;
    ASSERT_EQ(Receive(sockets.ends[1], &message, &version), Received::kMessage);
    const Status status = DecodeError(message.payload);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "what and why");
  });
}

}  // namespace
}  // namespace control
}  // namespace npu_bridge
