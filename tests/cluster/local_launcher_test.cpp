// Tests the launcher as a real process with real ranks.
#include "colossal/cluster/local_launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "colossal/cluster/failure.h"
#include "colossal/cluster/stop_request.h"
#include "tests/cluster/test_process.h"

namespace colossal::cluster {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class LocalLauncher : public testing::Test {
 protected:
  std::vector<std::string> launch(int num_ranks, std::vector<std::string> behaviour) {
    std::vector<std::string> arguments{rank_program(), "launch", std::to_string(num_ranks)};
    arguments.insert(arguments.end(), behaviour.begin(), behaviour.end());
    arguments.push_back(word_);
    return arguments;
  }

  int lines_with(const std::string& output, const std::string& text) {
    std::istringstream lines(output);
    int found = 0;
    for (std::string line; std::getline(lines, line);) found += line.find(text) != line.npos;
    return found;
  }

  const std::string word_ = unique_word();
};

TEST_F(LocalLauncher, tells_each_rank_who_it_is) {
  TestProcess launcher(launch(3, {"print-environment"}));
  EXPECT_EQ(launcher.wait(), 0);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(launcher.output(),
                ContainsRegex(fmt::format("rank={} size=3 local={}/3 hosts=1 address=127.0.0.1 "
                                          "interface=127.0.0.1 port=set served=false listens={} "
                                          "prefix=[0-9a-f]{{16}} launcher=colossal run",
                                          rank, rank, rank == 0)));
  }
}

TEST_F(LocalLauncher, gives_rank_0_a_socket_that_all_others_reach) {
  TestProcess launcher(launch(4, {"meet"}));
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_THAT(launcher.output(), HasSubstr("all 4 ranks met"));
}

TEST_F(LocalLauncher, names_a_killed_rank_and_exits_3) {
  TestProcess launcher(launch(3, {"kill", "1", "9"}));
  EXPECT_EQ(launcher.wait(kAllGone), 3);
  EXPECT_THAT(launcher.output(),
              ContainsRegex("error: rank 1 \\(pid [0-9]+, host .+\\) was killed by signal 9 "
                            "\\(SIGKILL\\)"));
  EXPECT_EQ(lines_with(launcher.output(), "error:"), 1) << "the others only followed";
  EXPECT_EQ(lines_with(launcher.output(), "exited with code 3: a peer is lost"), 2);
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, ends_ranks_that_notice_nothing_and_ignore_sigterm) {
  TestProcess launcher(launch(3, {"kill-among-deaf", "2", "6"}));
  EXPECT_EQ(launcher.wait(kAllGone), 3);
  EXPECT_THAT(launcher.output(), ContainsRegex("rank 2 .* was killed by signal 6 \\(SIGABRT\\)"));
  EXPECT_EQ(lines_with(launcher.output(), "did not end by itself"), 2);
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, names_a_rank_that_fails_alone_with_its_message_and_keeps_its_code) {
  TestProcess launcher(launch(2, {"exit-one", "1", "1"}));
  EXPECT_EQ(launcher.wait(kAllGone), 1);
  EXPECT_THAT(launcher.output(), ContainsRegex("rank 1 .* exited with code 1: the disk is full"));
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, says_once_what_all_ranks_found_wrong) {
  TestProcess launcher(launch(4, {"exit-all", "2"}));
  EXPECT_EQ(launcher.wait(), 2);
  EXPECT_EQ(lines_with(launcher.output(), "there is no such key"), 1);
  EXPECT_EQ(lines_with(launcher.output(), "rank"), 0);
}

TEST_F(LocalLauncher, a_program_that_is_not_there_is_the_users_mistake) {
  TestProcess launcher({rank_program(), "run", "-n", "2", "--", "no-such-program"});
  EXPECT_EQ(launcher.wait(), 2);
  EXPECT_THAT(launcher.output(),
              HasSubstr("cannot start program 'no-such-program': No such file or directory"));
}

TEST_F(LocalLauncher, needs_a_rank) {
  TestProcess launcher(launch(0, {"print-environment"}));
  EXPECT_EQ(launcher.wait(), 2);
  EXPECT_THAT(launcher.output(), HasSubstr("number of ranks is 0"));
}

TEST_F(LocalLauncher, control_c_lets_the_ranks_save_once) {
  TestProcess launcher(launch(2, {"train"}), {.in_terminal = true});
  ASSERT_TRUE(launcher.writes("trains", 2));
  launcher.type("\x03");
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
  EXPECT_EQ(lines_with(launcher.output(), "SIGINT: finishing the step"), 2);
  EXPECT_EQ(lines_with(launcher.output(), "saved"), 2);
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, a_second_control_c_kills) {
  TestProcess launcher(launch(2, {"deaf"}), {.in_terminal = true});
  ASSERT_TRUE(launcher.writes("sleeps", 2));
  launcher.type("\x03");
  EXPECT_EQ(launcher.wait(100ms), -1) << "it waits for them to save";
  launcher.type("\x03");
  EXPECT_EQ(launcher.wait(1100ms), -1) << "so soon it is the same request";
  launcher.type("\x03");
  EXPECT_EQ(launcher.wait(kAllGone), 128 + SIGINT);
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, goes_on_when_its_terminal_is_gone) {
  TestProcess launcher(launch(2, {"train"}), {.in_terminal = true});
  ASSERT_TRUE(launcher.writes("trains", 2));
  kill(launcher.pid(), SIGHUP);
  ASSERT_TRUE(launcher.writes("SIGHUP: the terminal was closed; the ranks continue"));
  EXPECT_EQ(launcher.wait(100ms), -1);
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, set_up_ends_at_once) {
  TestProcess launcher(launch(2, {"set-up"}));
  ASSERT_TRUE(launcher.writes("is being set up", 2));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(kAllGone), kStoppedExitCode);
  EXPECT_THAT(launcher.output(), HasSubstr("nothing is lost"));
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, a_rank_that_is_stopped_alone_stops_the_others) {
  TestProcess launcher(launch(2, {"train"}));
  ASSERT_TRUE(launcher.writes("trains", 2));
  const std::vector<pid_t> processes = processes_with(word_);
  kill(*std::max_element(processes.begin(), processes.end()), SIGTERM);  // the last one started
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
  EXPECT_EQ(lines_with(launcher.output(), "saved"), 2);
}

TEST_F(LocalLauncher, a_lost_pipe_ends_what_knows_nothing_of_it) {
  TestProcess launcher(
      {"sh", "-c", rank_program() + " run -n 1 -- sh -c 'yes " + word_ + "' | head -1"});
  launcher.wait(kAllGone);
  // A shell's exit code for SIGPIPE: 128 + 13.
  EXPECT_THAT(launcher.output(), HasSubstr("exited with code 141"));
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, sigterm_ends_a_program_that_knows_nothing_of_it) {
  TestProcess launcher(
      {rank_program(), "run", "-n", "2", "--", "sh", "-c", "sleep 1000; " + word_});
  ASSERT_TRUE(comes_true([&] { return processes_with(word_).size() >= 3; }, 10s));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(kAllGone), 128 + SIGTERM);
  EXPECT_THAT(launcher.output(), Not(HasSubstr("error")));
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, control_z_stops_the_ranks_and_they_go_on) {
  TestProcess launcher(launch(1, {"train"}), {.in_terminal = true});
  ASSERT_TRUE(launcher.writes("trains"));
  const auto all_stopped = [&](bool stopped) {
    return comes_true(
        [&] {
          int count = 0;
          for (const pid_t pid : processes_with(word_)) {
            std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
            const std::string stat{std::istreambuf_iterator<char>(file), {}};
            count += stat.find(") T ") != stat.npos;
          }
          return (count == 2) == stopped;
        },
        5s);
  };
  launcher.type("\x1a");
  EXPECT_TRUE(all_stopped(true));
  kill(launcher.pid(), SIGCONT);
  EXPECT_TRUE(all_stopped(false));
  kill(launcher.pid(), SIGINT);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
  EXPECT_THAT(launcher.output(), HasSubstr("rank 0 saved"));
}

TEST_F(LocalLauncher, a_signal_that_was_ignored_from_the_start_stays_ignored) {
  TestProcess launcher(
      {"sh", "-c", "trap '' HUP; exec " + rank_program() + " launch 1 train " + word_});
  ASSERT_TRUE(launcher.writes("trains"));
  kill(launcher.pid(), SIGHUP);
  EXPECT_EQ(launcher.wait(100ms), -1);
  EXPECT_THAT(launcher.output(), Not(HasSubstr("SIGHUP")));
  kill(launcher.pid(), SIGINT);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
}

TEST_F(LocalLauncher, kill_9_of_the_launcher_leaves_no_process) {
  for (const char* behaviour : {"deaf", "with-child"}) {
    TestProcess launcher(launch(2, {behaviour}));
    ASSERT_TRUE(launcher.writes("sleeps", 2));
    kill(launcher.pid(), SIGKILL);
    EXPECT_EQ(launcher.wait(), 1000 + SIGKILL);
    expect_no_process_with(word_);
  }
}

TEST_F(LocalLauncher, what_a_rank_started_ends_with_the_rank) {
  const std::string forgotten = "sh -c 'sleep 1000; true' " + word_ + " &";
  TestProcess launcher(
      {rank_program(), "run", "-n", "1", "--", "sh", "-c", forgotten + " sleep 0.1"});
  EXPECT_EQ(launcher.wait(), 0);
  expect_no_process_with(word_);
}

TEST_F(LocalLauncher, ranks_read_nothing_from_the_terminal) {
  TestProcess launcher({rank_program(), "run", "-n", "1", "--", "sh", "-c", "cat; echo end"},
                       {.in_terminal = true});
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_THAT(launcher.output(), StartsWith("end"));
}

TEST_F(LocalLauncher, ranks_may_write_where_the_background_may_not) {
  TestProcess launcher({"sh", "-c", "stty tostop; exec " + rank_program() + " launch 1 meet"},
                       {.in_terminal = true});
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_THAT(launcher.output(), HasSubstr("all 1 ranks met"));
}

// Returns the addresses on which the processes listen, as in /proc/net/tcp.
std::vector<std::string> listening_addresses(const std::vector<pid_t>& processes) {
  namespace fs = std::filesystem;
  std::vector<std::string> addresses;
  std::set<std::string> seen;
  for (const pid_t pid : processes) {
    const fs::path process = "/proc/" + std::to_string(pid);
    std::string sockets;
    for (const auto& fd : fs::directory_iterator(process / "fd")) {
      std::error_code gone;
      sockets += fs::read_symlink(fd, gone).string() + " ";
    }
    for (const char* table : {"net/tcp", "net/tcp6"}) {
      std::ifstream file(process / table);
      for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
        fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
            timeout >> inode;
        const bool own = sockets.find("socket:[" + inode + "]") != std::string::npos;
        if (state == "0A" && own) addresses.push_back(local.substr(0, local.find(':')));
      }
    }
  }
  return addresses;
}

TEST_F(LocalLauncher, listens_on_loopback_only) {
  TestProcess launcher(launch(2, {"sleep"}));
  ASSERT_TRUE(launcher.writes("sleeps", 2));
  // Only rank 0's store, once the launcher has closed it.
  const std::vector<std::string> loopback_once{"0100007F"};
  EXPECT_TRUE(
      comes_true([&] { return listening_addresses(processes_with(word_)) == loopback_once; }, 5s));
  kill(launcher.pid(), SIGTERM);
  launcher.wait();
}

TEST_F(LocalLauncher, overrides_what_an_outer_launcher_set) {
  TestProcess launcher(launch(2, {"print-environment"}),
                       {.variables = {{"RANK", "5"},
                                      {"WORLD_SIZE", "8"},
                                      {"COLOSSAL_STORE_FD", "77"},
                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}}});
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_THAT(launcher.output(), ContainsRegex("rank=1 size=2 .* served=false listens=false"));
}

// A rank without our launcher, which torchrun or a scheduler stops.
class StopRequest : public LocalLauncher {
 protected:
  const TestProcess::Options single_{.variables = {{"RANK", "0"}, {"WORLD_SIZE", "1"}}};
};

TEST_F(StopRequest, comes_by_any_of_the_stop_signals) {
  for (const int signal : kStopSignals) {
    TestProcess rank({rank_program(), "train"}, single_);
    ASSERT_TRUE(rank.writes("trains"));
    kill(rank.pid(), signal);
    EXPECT_EQ(rank.wait(), kStoppedExitCode);
    EXPECT_THAT(rank.output(), HasSubstr(signal_name(signal) + ": finishing the step"));
    EXPECT_THAT(rank.output(), HasSubstr("saved"));
  }
}

TEST_F(StopRequest, forces_the_process_when_it_comes_again_later) {
  TestProcess rank({rank_program(), "never-stop"}, single_);
  ASSERT_TRUE(rank.writes("trains"));
  kill(rank.pid(), SIGINT);
  ASSERT_TRUE(rank.writes("asked to stop"));
  kill(rank.pid(), SIGTERM);
  EXPECT_EQ(rank.wait(1100ms), -1) << "so soon it is the same request";
  kill(rank.pid(), SIGINT);
  EXPECT_EQ(rank.wait(), 128 + SIGINT);
}

TEST_F(StopRequest, ends_set_up_at_once) {
  TestProcess rank({rank_program(), "set-up"}, single_);
  ASSERT_TRUE(rank.writes("is being set up"));
  kill(rank.pid(), SIGINT);
  EXPECT_EQ(rank.wait(), kStoppedExitCode);
  EXPECT_THAT(rank.output(), HasSubstr("SIGINT: stopped before the first step; nothing is lost"));
}

}  // namespace
}  // namespace colossal::cluster
