// Tests elastic jobs on several "hosts": hosts are lost, join and leave.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "colossal/cluster/socket.h"
#include "colossal/cluster/stop_request.h"
#include "tests/cluster/network_namespaces.h"
#include "tests/cluster/test_process.h"

namespace colossal::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;

// Three loopback addresses serve as hosts, with one rank each.
class ElasticHosts : public testing::Test {
 protected:
  ElasticHosts() : port_(bound_port(bind_socket("127.0.0.1", 0))) {
    std::filesystem::create_directories(folder_);
  }
  ~ElasticHosts() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> launcher(int host, int min_hosts = 1,
                                    std::vector<std::string> behaviour = {}) {
    if (behaviour.empty()) behaviour = {"die-at-first", folder_.string(), "0", "0"};
    std::vector<std::string> command{rank_program(), "run",
                                     "-n",           "1",
                                     "--hosts",      "127.0.0.[1-3]",
                                     "--host-index", std::to_string(host),
                                     "--port",       std::to_string(port_),
                                     "--min-hosts",  std::to_string(min_hosts),
                                     "--timeout",    "2",
                                     "--",           rank_program()};
    command.insert(command.end(), behaviour.begin(), behaviour.end());
    command.push_back(word_);
    return command;
  }

  const int port_;
  const std::string word_ = unique_word();
  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / word_;
};

TEST_F(ElasticHosts, a_lost_host_is_left_out_and_added_when_it_comes_back) {
  TestProcess a(launcher(0)), b(launcher(1));
  {
    TestProcess c(launcher(2));
    ASSERT_TRUE(a.writes("rank 0 of 3"));
    ASSERT_TRUE(b.writes("rank 1 of 3"));
    ASSERT_TRUE(c.writes("rank 2 of 3"));
    kill(c.pid(), SIGKILL);
  }
  ASSERT_TRUE(a.writes("rank 0 of 2")) << a.output();
  ASSERT_TRUE(b.writes("rank 1 of 2")) << b.output();
  EXPECT_THAT(a.output(), HasSubstr("host 127.0.0.3 (rank 2) was lost"));
  EXPECT_THAT(a.output(), HasSubstr("the job continues on 2 of 3 hosts: 127.0.0.1, 127.0.0.2"));
  TestProcess c(launcher(2));
  ASSERT_TRUE(a.writes("rank 0 of 3", 2)) << a.output();
  ASSERT_TRUE(b.writes("rank 1 of 3", 2)) << b.output();
  ASSERT_TRUE(c.writes("rank 2 of 3")) << c.output();
  EXPECT_TRUE(a.writes("saved", 1)) << "the ranks save before the host is added";
  kill(a.pid(), SIGINT);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_EQ(b.wait(), kStoppedExitCode);
  EXPECT_EQ(c.wait(), kStoppedExitCode);
  expect_no_process_with(word_);
}

TEST_F(ElasticHosts, the_host_in_the_middle_may_be_lost_too) {
  TestProcess a(launcher(0)), c(launcher(2));
  {
    TestProcess b(launcher(1));
    ASSERT_TRUE(c.writes("rank 2 of 3"));
    kill(b.pid(), SIGKILL);
  }
  ASSERT_TRUE(a.writes("rank 0 of 2"));
  ASSERT_TRUE(c.writes("rank 1 of 2"));
  kill(a.pid(), SIGINT);
  EXPECT_EQ(c.wait(), kStoppedExitCode);
}

TEST_F(ElasticHosts, sigterm_makes_a_host_leave_and_the_others_go_on) {
  TestProcess a(launcher(0)), b(launcher(1)), c(launcher(2));
  ASSERT_TRUE(c.writes("rank 2 of 3"));
  ASSERT_TRUE(b.writes("rank 1 of 3"));
  ASSERT_TRUE(a.writes("rank 0 of 3"));
  kill(b.pid(), SIGTERM);
  EXPECT_EQ(b.wait(), kStoppedExitCode) << b.output();
  EXPECT_THAT(b.output(), HasSubstr("SIGTERM: this host leaves the job when the current step"));
  EXPECT_THAT(b.output(), HasSubstr("saved"));
  ASSERT_TRUE(a.writes("rank 0 of 2"));
  ASSERT_TRUE(c.writes("rank 1 of 2"));
  kill(c.pid(), SIGINT);
  EXPECT_EQ(a.wait(), kStoppedExitCode) << "Ctrl-C on any host stops the job";
  EXPECT_EQ(c.wait(), kStoppedExitCode);
}

TEST_F(ElasticHosts, with_too_few_hosts_the_job_waits_then_stops) {
  TestProcess a(launcher(0, 3)), b(launcher(1, 3));
  {
    TestProcess c(launcher(2, 3));
    ASSERT_TRUE(c.writes("rank 2 of 3"));
    kill(c.pid(), SIGKILL);
  }
  ASSERT_TRUE(a.writes("waiting until 3 hosts are there; now 2"));
  {
    TestProcess c(launcher(2, 3));
    ASSERT_TRUE(c.writes("rank 2 of 3"));
    kill(c.pid(), SIGKILL);
  }
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_EQ(b.wait(), kStoppedExitCode);
  EXPECT_THAT(a.output(), HasSubstr("start the same command on at least 3 hosts"));
  expect_no_process_with(word_);
}

TEST_F(ElasticHosts, starts_without_hosts_that_do_not_come) {
  TestProcess a(launcher(0, 2)), b(launcher(1, 2));
  ASSERT_TRUE(a.writes("rank 0 of 2"));
  EXPECT_THAT(a.output(), HasSubstr("starting without host 127.0.0.3, which may join later"));
  TestProcess c(launcher(2, 2));
  ASSERT_TRUE(a.writes("rank 0 of 3"));
  ASSERT_TRUE(b.writes("rank 1 of 3"));
  ASSERT_TRUE(c.writes("rank 2 of 3"));
  kill(b.pid(), SIGINT);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
}

TEST_F(ElasticHosts, a_rank_that_dies_is_started_again_and_a_host_that_fails_twice_left_out) {
  const std::vector<std::string> behaviour{"die-at-first", folder_.string(), "2", "2"};
  TestProcess a(launcher(0, 1, behaviour)), b(launcher(1, 1, behaviour)),
      c(launcher(2, 1, behaviour));
  ASSERT_TRUE(a.writes("rank 0 of 2")) << a.output();
  ASSERT_TRUE(b.writes("rank 1 of 2"));
  EXPECT_THAT(a.output(), HasSubstr("restart 1 of at most 3"));
  EXPECT_THAT(a.output(), HasSubstr("host 127.0.0.3 is left out, because its ranks failed"));
  EXPECT_THAT(c.output(), Not(HasSubstr("rank 2 of 3")));
  kill(a.pid(), SIGTERM);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_EQ(c.wait(), kStoppedExitCode) << "it waits to be needed again";
}

TEST_F(ElasticHosts, a_job_that_saves_between_failures_goes_on) {
  std::ofstream(folder_ / "saves");
  const std::vector<std::string> behaviour{"die-at-first", folder_.string(), "5", "2"};
  TestProcess a(launcher(0, 1, behaviour)), b(launcher(1, 1, behaviour)),
      c(launcher(2, 1, behaviour));
  ASSERT_TRUE(a.writes("rank 0 of 3")) << a.output();
  ASSERT_TRUE(b.writes("rank 1 of 3"));
  ASSERT_TRUE(c.writes("rank 2 of 3"));
  EXPECT_THAT(a.output(), Not(HasSubstr("restart 2 of at most 3")));
  kill(a.pid(), SIGINT);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
}

TEST_F(ElasticHosts, a_number_of_hosts_that_the_configuration_refuses_is_not_used) {
  const std::vector<std::string> behaviour{"refuse-more-than", "2"};
  TestProcess a(launcher(0, 2, behaviour)), b(launcher(1, 2, behaviour));
  ASSERT_TRUE(b.writes("rank 1 of 2"));
  TestProcess c(launcher(2, 2, behaviour));
  ASSERT_TRUE(a.writes("rank 0 of 2", 2));
  ASSERT_TRUE(b.writes("rank 1 of 2", 2));
  EXPECT_THAT(a.output(), HasSubstr("the configuration does not work with 3 hosts; trying 2"));
  kill(a.pid(), SIGTERM);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
}

TEST_F(ElasticHosts, a_configuration_that_never_worked_ends_the_job) {
  const std::vector<std::string> behaviour{"refuse-more-than", "2"};
  TestProcess a(launcher(0, 2, behaviour)), b(launcher(1, 2, behaviour)),
      c(launcher(2, 2, behaviour));
  EXPECT_EQ(a.wait(), 2);
  EXPECT_EQ(b.wait(), 2);
  EXPECT_EQ(c.wait(), 2);
}

TEST_F(ElasticHosts, a_host_that_waits_leaves_alone) {
  const std::vector<std::string> behaviour{"refuse-more-than", "2"};
  TestProcess a(launcher(0, 2, behaviour)), b(launcher(1, 2, behaviour));
  ASSERT_TRUE(b.writes("rank 1 of 2"));
  TestProcess c(launcher(2, 2, behaviour));
  ASSERT_TRUE(a.writes("rank 0 of 2", 2));
  ASSERT_TRUE(b.writes("rank 1 of 2", 2));
  kill(c.pid(), SIGTERM);
  EXPECT_EQ(c.wait(), kStoppedExitCode);
  EXPECT_EQ(a.wait(700ms), -1) << "the others go on";
  kill(a.pid(), SIGINT);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_EQ(b.wait(), kStoppedExitCode);
}

TEST_F(ElasticHosts, a_host_that_lacks_the_program_is_left_out) {
  TestProcess a(launcher(0, 2)), b(launcher(1, 2));
  ASSERT_TRUE(a.writes("rank 0 of 2"));
  ASSERT_TRUE(b.writes("rank 1 of 2"));
  std::vector<std::string> command = launcher(2, 2);
  *std::find(command.rbegin(), command.rend(), rank_program()) = "no-such-program";
  TestProcess c(command);
  EXPECT_EQ(c.wait(), 2);
  ASSERT_TRUE(a.writes("rank 0 of 2", 2)) << a.output();
  ASSERT_TRUE(b.writes("rank 1 of 2", 2)) << b.output();
  EXPECT_THAT(a.output(), HasSubstr("host 127.0.0.3 is left out, because its ranks have failed"));
  kill(a.pid(), SIGINT);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
}

TEST_F(ElasticHosts, ctrl_c_after_a_failure_ends_the_job) {
  const std::vector<std::string> behaviour{"kill-among-deaf", "0", "9"};
  TestProcess a(launcher(0, 1, behaviour)), b(launcher(1, 1, behaviour)),
      c(launcher(2, 1, behaviour));
  ASSERT_TRUE(b.writes("was killed by signal 9"));
  kill(b.pid(), SIGINT);
  EXPECT_THAT((std::vector{a.wait(), b.wait(), c.wait()}), testing::Each(3));
  EXPECT_THAT(a.output(), Not(HasSubstr("restart")));
}

TEST_F(ElasticHosts, without_the_first_host_the_others_end_their_ranks_and_try_to_join_again) {
  TestProcess b(launcher(1)), c(launcher(2));
  {
    TestProcess a(launcher(0));
    ASSERT_TRUE(b.writes("rank 1 of 3"));
    ASSERT_TRUE(c.writes("rank 2 of 3"));
    kill(a.pid(), SIGKILL);
  }
  ASSERT_TRUE(b.writes("trying to join the job again for 2 s"));
  {
    TestProcess a(launcher(0));
    ASSERT_TRUE(b.writes("rank 1 of 3", 2)) << b.output();
    ASSERT_TRUE(c.writes("rank 2 of 3", 2)) << c.output();
    kill(a.pid(), SIGKILL);
  }
  EXPECT_EQ(b.wait(), 3);
  EXPECT_EQ(c.wait(), 3);
  expect_no_process_with(word_);
}

TEST_F(ElasticHosts, a_second_launcher_of_a_host_waits_until_the_first_is_gone) {
  TestProcess a(launcher(0, 2)), b(launcher(1, 2)), c(launcher(2, 2));
  ASSERT_TRUE(b.writes("rank 1 of 3"));
  TestProcess again(launcher(1, 2));
  std::this_thread::sleep_for(500ms);
  EXPECT_THAT(again.output(), Not(HasSubstr("rank")));
  kill(b.pid(), SIGKILL);
  ASSERT_TRUE(again.writes("rank 1 of 3")) << again.output();
  ASSERT_TRUE(a.writes("rank 0 of 3", 2));
  ASSERT_TRUE(c.writes("rank 2 of 3", 2));
  kill(a.pid(), SIGTERM);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_EQ(again.wait(), kStoppedExitCode);
}

// On hosts between which a cable can be cut.
TEST_F(ElasticHosts, a_host_that_was_cut_off_joins_again_by_itself) {
  if (geteuid() != 0) GTEST_SKIP() << "makes network namespaces, which needs root";
  NetworkNamespaces network;
  const auto on = [&](int host) {
    const std::vector<std::string> run{rank_program(),
                                       "run",
                                       "-n",
                                       "1",
                                       "--hosts",
                                       "10.213.0.[1-2]",
                                       "--min-hosts",
                                       "1",
                                       "--timeout",
                                       "60",
                                       "--",
                                       rank_program(),
                                       "die-at-first",
                                       folder_.string(),
                                       "0",
                                       "0",
                                       word_};
    std::vector<std::string> command = network.on(host);
    command.insert(command.end(), run.begin(), run.end());
    return command;
  };
  TestProcess a(on(0)), b(on(1));
  ASSERT_TRUE(a.writes("rank 0 of 2"));
  ASSERT_TRUE(b.writes("rank 1 of 2"));
  network.cut_cable();
  ASSERT_TRUE(a.writes("rank 0 of 1", 1, 20s)) << a.output();
  ASSERT_TRUE(b.writes("trying to join the job again", 1, 20s)) << b.output();
  network.mend_cable();
  ASSERT_TRUE(a.writes("rank 0 of 2", 2, 20s)) << a.output();
  ASSERT_TRUE(b.writes("rank 1 of 2", 2, 20s)) << b.output();
  kill(b.pid(), SIGINT);
  EXPECT_EQ(a.wait(), kStoppedExitCode);
  EXPECT_EQ(b.wait(), kStoppedExitCode);
  expect_no_process_with(word_);
}

}  // namespace
}  // namespace colossal::cluster
