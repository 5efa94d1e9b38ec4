// `colossal run --hosts`, with a launcher on each of two "hosts".
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/cluster/run.h"
#include "colossal/cluster/socket.h"
#include "colossal/cluster/stop_request.h"
#include "tests/cluster/network_namespaces.h"
#include "tests/cluster/test_process.h"

namespace colossal::cluster {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Two loopback addresses serve as hosts if the network itself does not matter.
class Hosts : public testing::Test {
 protected:
  Hosts() : port_(bound_port(bind_socket("127.0.0.1", 0))) {}

  std::vector<std::string> launcher(int host, const std::vector<std::string>& behaviour,
                                    const std::vector<std::string>& options = {"-n", "2"}) {
    return std::vector<std::string>{rank_program(), "run"} + options +
           std::vector<std::string>{
               "--hosts", "127.0.0.[1-2]",       "--host-index", std::to_string(host),
               "--port",  std::to_string(port_), "--",           rank_program()} +
           behaviour + std::vector<std::string>{word_};
  }

  const int port_;
  const std::string word_ = unique_word();
};

TEST_F(Hosts, ranks_are_numbered_over_hosts) {
  TestProcess b(launcher(1, {"print-environment"}));  // the first host may come last
  TestProcess a(launcher(0, {"print-environment"}));
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  EXPECT_THAT(a.output(), ContainsRegex("rank=0 size=4 local=0/2 hosts=2 address=127.0.0.1 "
                                        "interface=127.0.0.1 .* listens=true"));
  EXPECT_THAT(b.output(), ContainsRegex("rank=3 size=4 local=1/2 hosts=2 address=127.0.0.1 "
                                        "interface=127.0.0.2 .* listens=false"));
  EXPECT_EQ(a.output().substr(a.output().find("prefix="), 23),
            b.output().substr(b.output().find("prefix="), 23));
}

TEST_F(Hosts, a_dead_rank_is_named_on_every_host) {
  for (const int dead : {0, 3}) {
    TestProcess a(launcher(0, {"kill-among-deaf", std::to_string(dead), "9"}));
    TestProcess b(launcher(1, {"kill-among-deaf", std::to_string(dead), "9"}));
    const auto start = Clock::now();
    EXPECT_EQ(a.wait(), 3);
    EXPECT_EQ(b.wait(), 3);
    EXPECT_LT(Clock::now() - start, kAllGone);
    const std::string named =
        fmt::format("rank {} \\(pid [0-9]+, host 127.0.0.{}\\) was killed by signal 9", dead,
                    dead == 0 ? 1 : 2);
    EXPECT_THAT(a.output(), ContainsRegex(named));
    EXPECT_THAT(b.output(), ContainsRegex(named));
    expect_no_process_with(word_);
  }
}

TEST_F(Hosts, the_first_host_hears_of_a_death_after_its_own_ranks_have_ended) {
  TestProcess a(launcher(0, {"kill-late", "3", "9"})), b(launcher(1, {"kill-late", "3", "9"}));
  EXPECT_EQ(a.wait(), 3);
  EXPECT_EQ(b.wait(), 3);
  EXPECT_THAT(a.output(), ContainsRegex("rank 3 .* was killed by signal 9"));
}

TEST_F(Hosts, a_message_reaches_every_host) {
  TestProcess a(launcher(0, {"exit-one", "2", "1"}));
  TestProcess b(launcher(1, {"exit-one", "2", "1"}));
  EXPECT_EQ(a.wait(), 1);
  EXPECT_EQ(b.wait(), 1);
  for (TestProcess* host : {&a, &b}) {
    EXPECT_THAT(host->output(), ContainsRegex("rank 2 .* exited with code 1: the disk is full"));
  }
}

TEST_F(Hosts, a_lost_host_is_named_on_the_others) {
  for (const int lost : {0, 1}) {
    TestProcess a(launcher(0, {"deaf"})), b(launcher(1, {"deaf"}));
    TestProcess& dies = lost == 0 ? a : b;
    TestProcess& stays = lost == 0 ? b : a;
    ASSERT_TRUE(stays.writes("sleeps", 2));
    ASSERT_TRUE(dies.writes("sleeps", 2));
    kill(dies.pid(), SIGKILL);
    EXPECT_EQ(stays.wait(kAllGone), 3);
    EXPECT_THAT(stays.output(), HasSubstr(fmt::format("host 127.0.0.{} (ranks {} to {}) was lost",
                                                      lost + 1, 2 * lost, 2 * lost + 1)));
    expect_no_process_with(word_);
  }
}

TEST_F(Hosts, a_stop_on_one_host_stops_all) {
  for (const int stopped : {0, 1}) {
    TestProcess a(launcher(0, {"train"})), b(launcher(1, {"train"}));
    ASSERT_TRUE(a.writes("trains", 2));
    ASSERT_TRUE(b.writes("trains", 2));
    kill((stopped == 0 ? a : b).pid(), SIGINT);
    EXPECT_EQ(a.wait(), kStoppedExitCode);
    EXPECT_EQ(b.wait(), kStoppedExitCode);
    EXPECT_TRUE(a.writes("saved", 2));
    EXPECT_TRUE(b.writes("saved", 2));
  }
}

TEST_F(Hosts, a_stop_on_all_hosts_at_once_is_one_request) {
  TestProcess a(launcher(0, {"train"})), b(launcher(1, {"train"}));
  ASSERT_TRUE(a.writes("trains", 2));
  ASSERT_TRUE(b.writes("trains", 2));
  kill(a.pid(), SIGTERM);
  kill(b.pid(), SIGTERM);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_EQ(b.wait(), kStoppedExitCode);
  EXPECT_TRUE(b.writes("saved", 2));
}

TEST_F(Hosts, a_host_that_never_comes_is_named) {
  TestProcess a(launcher(0, {"train"}, {"-n", "1", "--timeout", "1"}));
  EXPECT_EQ(a.wait(), 3);
  EXPECT_THAT(a.output(), HasSubstr("no launcher came from host 127.0.0.2"));
  TestProcess b(launcher(1, {"train"}, {"-n", "1", "--timeout", "1"}));
  EXPECT_EQ(b.wait(), 3);
  EXPECT_THAT(b.output(), HasSubstr("the job was not started by the launcher on host 127.0.0.1"));
}

TEST_F(Hosts, who_is_waited_for_is_said_after_a_while) {
  TestProcess a(launcher(0, {"train"}));
  EXPECT_TRUE(a.writes("waiting for 127.0.0.2 (1 of 2 launchers are here"));
  kill(a.pid(), SIGTERM);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_THAT(a.output(), HasSubstr("before any rank was started; nothing is lost"));
}

TEST_F(Hosts, waiting_for_hosts_can_be_interrupted) {
  for (const int host : {0, 1}) {
    TestProcess launcher_process(launcher(host, {"train"}));
    std::this_thread::sleep_for(100ms);
    kill(launcher_process.pid(), SIGINT);
    EXPECT_GT(launcher_process.wait(2s), 0);
    expect_no_process_with(word_);
  }
}

TEST_F(Hosts, launchers_that_were_told_different_things_refuse) {
  TestProcess a(launcher(0, {"train"}, {"-n", "2"}));
  TestProcess b(launcher(1, {"train"}, {"-n", "3"}));
  EXPECT_EQ(b.wait(), 2);
  EXPECT_THAT(b.output(), HasSubstr("it was told 3 ranks on each of --hosts=127.0.0.1,127.0.0.2, "
                                    "but 127.0.0.1 was told 2"));
  EXPECT_EQ(a.wait(10ms), -1) << "it waits for the right one";
}

TEST_F(Hosts, strangers_do_not_get_in) {
  TestProcess a(launcher(0, {"print-environment"}));
  FileDescriptor stranger;
  ASSERT_TRUE(comes_true(
      [&] { return bool(stranger = try_connect("127.0.0.3", "127.0.0.1", port_)); }, 5s));
  EXPECT_TRUE(a.writes("refused a connection from 127.0.0.3"));
  const FileDescriptor babbler = try_connect("127.0.0.2", "127.0.0.1", port_);
  const std::string babble(1 << 20, 'x');
  EXPECT_GT(write(babbler.get(), babble.data(), babble.size()), 0);
  TestProcess b(launcher(1, {"print-environment"}));
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

TEST_F(Hosts, a_program_that_one_host_lacks_ends_the_others) {
  auto arguments = launcher(1, {"deaf"});
  *std::find(arguments.rbegin(), arguments.rend(), rank_program()) = "no-such-program";
  TestProcess a(launcher(0, {"deaf"})), b(arguments);
  EXPECT_EQ(b.wait(), 2);
  EXPECT_EQ(a.wait(kAllGone), 2);
  EXPECT_THAT(a.output(), HasSubstr("host 127.0.0.2 (ranks 2 to 3) was not started: cannot start "
                                    "program 'no-such-program'"));
}

TEST(RunOptions, that_cannot_be_are_refused) {
  const auto message = [](RunOptions options) -> std::string {
    try {
      run(options);
      return "it ran";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  const std::vector<std::string> command{"true"};
  EXPECT_THAT(message({}), HasSubstr("no program to run"));
  EXPECT_THAT(message({.num_ranks = 0, .command = command}), HasSubstr("-n is 0"));
  EXPECT_THAT(message({.port = 70000, .command = command}), HasSubstr("--port is 70000"));
  EXPECT_THAT(message({.hosts = {"127.0.0.1"}, .host_index = 1, .command = command}),
              HasSubstr("--host-index is 1"));
  EXPECT_THAT(message({.hosts = {"240.0.0.1", "240.0.0.1"}, .command = command}),
              HasSubstr("lists 240.0.0.1 twice"));
  EXPECT_THAT(message({.hosts = {"240.0.0.1", "240.0.0.2"}, .command = command}),
              HasSubstr("has none of this machine's addresses"));
  EXPECT_THAT(message({.hosts = {"localhost", "240.0.0.2"}, .command = command}),
              HasSubstr("which other hosts cannot reach"));
}

// Two network namespaces: each launcher finds itself in the list, and nothing uses loopback.
class NamespacedHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "makes network namespaces, which needs root";
    hosts_.emplace();
  }

  std::vector<std::string> launcher(int host, const std::vector<std::string>& behaviour) {
    return hosts_->on(host) +
           std::vector<std::string>{rank_program(),   "run", "-n",          "2", "--hosts",
                                    "10.213.0.[1-2]", "--",  rank_program()} +
           behaviour + std::vector<std::string>{word_};
  }

  std::optional<NetworkNamespaces> hosts_;
  const std::string word_ = unique_word();
};

TEST_F(NamespacedHosts, meet_at_the_first_hosts_store) {
  TestProcess a(launcher(0, {"meet"})), b(launcher(1, {"meet"}));
  EXPECT_EQ(a.wait(), 0) << a.output();
  EXPECT_EQ(b.wait(), 0) << b.output();
  EXPECT_THAT(a.output(), HasSubstr("all 4 ranks met"));
}

TEST_F(NamespacedHosts, listen_only_at_the_listed_address) {
  TestProcess a(launcher(0, {"sleep"})), b(launcher(1, {"sleep"}));
  ASSERT_TRUE(a.writes("sleeps", 2));
  ASSERT_TRUE(b.writes("sleeps", 2));
  EXPECT_THAT(run_command(hosts_->on(0) + std::vector<std::string>{"ss", "-Hltn"}),
              ContainsRegex("^LISTEN +[0-9]+ +[0-9]+ +10.213.0.1:[0-9]+ +0.0.0.0:\\*[ \n]*$"));
  EXPECT_EQ(run_command(hosts_->on(1) + std::vector<std::string>{"ss", "-Hltn"}), "");
  kill(a.pid(), SIGTERM);
  EXPECT_EQ(a.wait(), 128 + SIGTERM);
  EXPECT_EQ(b.wait(), 128 + SIGTERM);
}

TEST_F(NamespacedHosts, a_dead_rank_is_named_on_both) {
  TestProcess a(launcher(0, {"kill", "3", "9"})), b(launcher(1, {"kill", "3", "9"}));
  EXPECT_EQ(a.wait(), 3);
  EXPECT_EQ(b.wait(), 3);
  const char* named = "rank 3 .pid [0-9]+, host 10.213.0.2. was killed by signal 9";
  EXPECT_THAT(a.output(), ContainsRegex(named));
  EXPECT_THAT(b.output(), ContainsRegex(named));
}

TEST_F(NamespacedHosts, a_cut_cable_is_noticed_on_both_sides) {
  TestProcess a(launcher(0, {"sleep"})), b(launcher(1, {"sleep"}));
  ASSERT_TRUE(a.writes("sleeps", 2));
  ASSERT_TRUE(b.writes("sleeps", 2));
  hosts_->cut_cable();
  EXPECT_EQ(a.wait(8s), 3);
  EXPECT_EQ(b.wait(8s), 3);
  EXPECT_THAT(a.output(), HasSubstr("host 10.213.0.2 (ranks 2 to 3) was lost"));
  EXPECT_THAT(b.output(), HasSubstr("host 10.213.0.1 (ranks 0 to 1) was lost"));
}

}  // namespace
}  // namespace colossal::cluster
