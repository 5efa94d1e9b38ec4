#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "colossal/base/error.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/world.h"
#include "tests/support/run_ranks.h"

namespace colossal::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

template <typename Kind>
std::string failure_of(const Rendezvous& rendezvous, const std::string& backend,
                       milliseconds timeout = milliseconds(300)) {
  try {
    connect(rendezvous, {.backend = backend}, timeout);
  } catch (const Kind& error) {
    return error.what();
  }
  return "no failure";
}

int free_port() {
  const test::Listener listener = test::listen_on_loopback();
  close(listener.fd);
  return listener.port;
}

TEST(Connect, RefusesUnknownBackends) {
  EXPECT_THAT(
      failure_of<ConfigError>({.port = 1}, "mpi"),
      HasSubstr("no backend \"mpi\" for ranks; there are \"auto\", \"shm\", \"gloo\", \"nccl\""));
}

TEST(WorldKind, ComputesOnGpusAsTheTwoKeysSay) {
  for (const bool own_gpus : {false, true}) {
    for (const char* backend : {"auto", "shm", "gloo", "nccl"}) {
      EXPECT_FALSE((WorldKind{backend, "cpu"}.computes_on_gpus(own_gpus)));
      EXPECT_TRUE((WorldKind{backend, "gpu"}.computes_on_gpus(own_gpus)));
    }
    EXPECT_EQ(WorldKind{}.computes_on_gpus(own_gpus), own_gpus);
    EXPECT_TRUE((WorldKind{.backend = "nccl"}.computes_on_gpus(own_gpus)));
    EXPECT_FALSE((WorldKind{.backend = "shm"}.computes_on_gpus(own_gpus)));
    EXPECT_FALSE((WorldKind{.backend = "gloo"}.computes_on_gpus(own_gpus)));
  }
}

std::string failure_alone(const WorldKind& kind) {
  try {
    device_alone(kind);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no failure";
}

TEST(WorldKind, RefusesWhatCannotBe) {
  EXPECT_EQ(failure_alone({.device = "cpu"}), "no failure");
  EXPECT_THAT(failure_alone({.device = "tpu"}),
              HasSubstr("no device \"tpu\" for ranks; there are \"auto\", \"cpu\", \"gpu\""));
  EXPECT_THAT(failure_alone({"nccl", "cpu"}), HasSubstr("but device is \"cpu\""));
  if (num_gpus() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(failure_alone({.backend = "nccl"}), HasSubstr("backend \"nccl\": no GPU is visible"));
  EXPECT_THAT(failure_alone({.device = "gpu"}), HasSubstr("device \"gpu\": no GPU is visible"));
}

TEST(Connect, RefusesImpossibleRanksAndPorts) {
  EXPECT_THAT(failure_of<ConfigError>({.rank = 2, .size = 2, .port = 1}, "gloo"),
              HasSubstr("rank 2 of 2"));
  EXPECT_THAT(failure_of<ConfigError>({.port = 0}, "gloo"), HasSubstr("port 0"));
}

TEST(Connect, NamesWhoDidNotCome) {
  const int port = free_port();
  EXPECT_EQ(failure_of<CommError>({.rank = 0, .size = 3, .port = port}, "gloo"),
            fmt::format("rank 0: timed out after 300ms: rank 1, rank 2 of 3 did not come to the "
                        "rendezvous at 127.0.0.1:{}",
                        port));
}

TEST(Connect, NamesTheAddressThatNobodyServes) {
  const int port = free_port();
  EXPECT_EQ(failure_of<CommError>({.rank = 1, .size = 2, .port = port}, "gloo"),
            fmt::format("rank 1: timed out after 300ms: nobody serves the rendezvous at "
                        "127.0.0.1:{}",
                        port));
  EXPECT_THAT(failure_of<CommError>(
                  {.rank = 1, .size = 2, .address = "no-such-host.invalid", .port = 1}, "gloo"),
              HasSubstr("no-such-host.invalid:1"));
}

TEST(Connect, NamesAPortThatIsTaken) {
  const test::Listener taken = test::listen_on_loopback();
  EXPECT_THAT(failure_of<CommError>({.size = 1, .port = taken.port}, "gloo"),
              HasSubstr(fmt::format("cannot serve the rendezvous at 127.0.0.1:{}: Address already "
                                    "in use",
                                    taken.port)));
  close(taken.fd);
}

TEST(Connect, NamesABadInterfaceAddress) {
  EXPECT_THAT(failure_of<CommError>(
                  {.size = 1, .port = free_port(), .interface_address = "203.0.113.7"}, "gloo"),
              HasSubstr("no data sockets on interface address 203.0.113.7"));
}

// Returns the local addresses of this process's listening TCP sockets, as in /proc/net/tcp.
std::set<std::string> listening_addresses() {
  std::set<std::string> inodes;
  for (int fd = 0; fd < 1024; ++fd) {
    char target[64] = {};
    if (readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target - 1) < 0) {
      continue;
    }
    const std::string text = target;
    if (text.starts_with("socket:[")) inodes.insert(text.substr(8, text.size() - 9));
  }
  std::set<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
      const std::string kListening = "0A";
      if (fields.size() < 10 || fields[3] != kListening || !inodes.contains(fields[9])) continue;
      addresses.insert(fields[1].substr(0, fields[1].find(':')));
    }
  }
  return addresses;
}

TEST(Connect, ListensOnLoopbackOnly) {
  const std::string kLoopback = "0100007F";
  test::run_ranks_over("gloo", 2, [&](World& world) {
    const Group group = world.group("dp", {0, 1});
    EXPECT_EQ(listening_addresses(), std::set<std::string>{kLoopback});
    barrier(group);
  });
}

TEST(Connect, ServesTheStoreItselfWhereNoSocketIsGiven) {
  const Rendezvous rendezvous{.size = 1, .port = free_port(), .prefix = "attempt-1"};
  const auto world = connect(rendezvous, {}, std::chrono::seconds(10));
  EXPECT_STREQ(world->backend(), "shm");
  EXPECT_EQ(world->group("dp", {0}).size(), 1);
  EXPECT_EQ(listening_addresses(), std::set<std::string>{"0100007F"});
}

}  // namespace
}  // namespace colossal::comm
