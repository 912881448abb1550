#include "csrc/transport/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "csrc/transport/conformance/plan.h"

namespace npu_bridge {
namespace {

std::string ErrorOf(const std::string& name) {
  const npu_transport_interface_v1* transport = nullptr;
  const Status status = FindTransport(name, &transport);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(nullptr, transport);
  return status.message();
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

npu_transport_interface_v1 Complete() {
  const npu_transport_interface_v1* loopback = nullptr;
  EXPECT_TRUE(FindTransport("loopback", &loopback).ok());
  return *loopback;
}

TEST(RegistryTest, BuiltInTransportsAreFoundByName) {
  for (const char* name : {"loopback", "shm"}) {
    const npu_transport_interface_v1* transport = nullptr;
    ASSERT_TRUE(FindTransport(name, &transport).ok()) << name;
    EXPECT_STREQ(name, transport->name);
    EXPECT_EQ(static_cast<std::uint32_t>(NPU_TRANSPORT_INTERFACE_VERSION), transport->version);
  }
  const std::vector<std::string> names = RegisteredTransports();
  EXPECT_EQ(1, std::count(names.begin(), names.end(), "loopback"));
  EXPECT_EQ(1, std::count(names.begin(), names.end(), "shm"));
}

TEST(RegistryTest, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  const std::string error = ErrorOf("infiniband");
  EXPECT_TRUE(Has(error, "'infiniband'")) << error;
  EXPECT_TRUE(Has(error, "loopback")) << error;
  EXPECT_TRUE(Has(error, "shm")) << error;
  EXPECT_TRUE(Has(error, "NPU_BRIDGE_TRANSPORT")) << error;
}

TEST(RegistryTest, AMissingLibraryIsNamed) {
  const std::string error = ErrorOf("/nonexistent/libtransport.so");
  EXPECT_TRUE(Has(error, "'/nonexistent/libtransport.so'")) << error;
  EXPECT_TRUE(Has(error, "cannot load")) << error;
}

TEST(RegistryTest, ALibraryWithoutTheSymbolIsNamedWithIt) {
  // Any library will do; the C library is there under this name wherever glibc is.
  const std::string error = ErrorOf(std::string("/proc/self/cwd/../") + "nothing.so");
  EXPECT_TRUE(Has(error, "cannot load")) << error;
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::string library;
  while (std::getline(maps, line) && library.empty()) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && Has(line, "libc.so")) library = line.substr(path);
  }
  ASSERT_FALSE(library.empty());
  const std::string no_symbol = ErrorOf(library);
  EXPECT_TRUE(Has(no_symbol, library)) << no_symbol;
  EXPECT_TRUE(Has(no_symbol, "npu_transport_interface")) << no_symbol;
}

// The example of docs/add-a-transport.md, loaded by its path and used.
TEST(RegistryTest, ALibraryIsLoadedByItsPathAndServes) {
  const npu_transport_interface_v1* transport = nullptr;
  const Status found = FindTransport(NPU_BRIDGE_EXAMPLE_TRANSPORT, &transport);
  ASSERT_TRUE(found.ok()) << found.message();
  EXPECT_STREQ("single_rank", transport->name);

  conformance::SharedWorld shared(1);
  conformance::WorldOptions options;
  options.size = 1;
  conformance::Rank rank(&shared, options, 0, *transport);
  ASSERT_TRUE(rank.Open().ok());
  conformance::Description description;
  description.types = {DataType::kFloat32, DataType::kInt8};
  description.counts = {1000, 0};
  conformance::RunAll(rank, rank.world(), {description}, 0);
  EXPECT_TRUE(rank.failures().empty()) << rank.failures().front();

  options.size = 2;
  conformance::SharedWorld two(2);
  conformance::Rank refused(&two, options, 0, *transport);
  EXPECT_EQ("the transport 'single_rank' serves jobs of one rank", refused.Open().message());
}

TEST(RegistryTest, AnotherVersionIsRefusedWithBothNumbers) {
  static npu_transport_interface_v1 newer;
  newer = Complete();
  newer.version = 7;
  RegisterTransport("test-newer",
                    [](std::uint32_t) -> const npu_transport_interface_v1* { return &newer; });
  const std::string error = ErrorOf("test-newer");
  EXPECT_TRUE(Has(error, "version 7")) << error;
  EXPECT_TRUE(Has(error, "version 1")) << error;
}

TEST(RegistryTest, ATransportThatDoesNotSpeakTheVersionIsRefused) {
  RegisterTransport("test-silent",
                    [](std::uint32_t) -> const npu_transport_interface_v1* { return nullptr; });
  EXPECT_TRUE(Has(ErrorOf("test-silent"), "does not speak version 1"));
}

TEST(RegistryTest, AnIncompleteInterfaceIsRefused) {
  static npu_transport_interface_v1 shorter;
  shorter = Complete();
  shorter.struct_size = 16;
  RegisterTransport("test-short",
                    [](std::uint32_t) -> const npu_transport_interface_v1* { return &shorter; });
  EXPECT_TRUE(Has(ErrorOf("test-short"), "16 bytes"));

  static npu_transport_interface_v1 hollow;
  hollow = Complete();
  hollow.cancel = nullptr;
  RegisterTransport("test-hollow",
                    [](std::uint32_t) -> const npu_transport_interface_v1* { return &hollow; });
  EXPECT_TRUE(Has(ErrorOf("test-hollow"), "NULL"));
}

}  // namespace
}  // namespace npu_bridge
