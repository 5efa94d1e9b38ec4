// Tests elastic jobs on one machine with real processes.
#include "colossal/cluster/elastic_launcher.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "colossal/base/error.h"
#include "colossal/cluster/stop_request.h"
#include "tests/cluster/test_process.h"

namespace colossal::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;

class ElasticLauncherTest : public testing::Test {
 protected:
  ElasticLauncherTest() { std::filesystem::create_directories(folder_); }
  ~ElasticLauncherTest() override { std::filesystem::remove_all(folder_); }

  // Ranks that die in the first `deaths` starts that have this rank, and train otherwise.
  std::vector<std::string> launch(int ranks, int min_ranks, int max_restarts, int deaths,
                                  int victim) {
    return {rank_program(),
            "launch-elastic",
            std::to_string(ranks),
            std::to_string(min_ranks),
            std::to_string(max_restarts),
            folder_.string(),
            "die-at-first",
            folder_.string(),
            std::to_string(deaths),
            std::to_string(victim),
            word_};
  }

  void request(int ranks) {
    std::ofstream(folder_ / "request.tmp") << ranks;
    std::filesystem::rename(folder_ / "request.tmp", folder_ / "request");
  }

  const std::string word_ = unique_word();
  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / word_;
};

TEST_F(ElasticLauncherTest, starts_again_on_the_same_ranks_after_a_death) {
  TestProcess launcher(launch(2, 1, 3, /*deaths=*/1, /*victim=*/1));
  ASSERT_TRUE(launcher.writes("trains", 2));
  EXPECT_THAT(launcher.output(), HasSubstr("was killed by signal 9"));
  EXPECT_THAT(launcher.output(), HasSubstr("starting again on 2 ranks: restart 1 of at most 3"));
  EXPECT_THAT(launcher.output(), HasSubstr("rank 1 of 2"));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
  EXPECT_THAT(launcher.output(), HasSubstr("to continue the job, use the same command"));
  expect_no_process_with(word_);
}

TEST_F(ElasticLauncherTest, then_on_the_next_number_of_ranks_that_works) {
  TestProcess launcher(launch(4, 1, 3, /*deaths=*/2, /*victim=*/3));
  ASSERT_TRUE(launcher.writes("trains", 2));
  EXPECT_THAT(launcher.output(), HasSubstr("starting again on 4 ranks"));
  EXPECT_THAT(launcher.output(), HasSubstr("starting again on 2 ranks: restart 2 of at most 3"));
  EXPECT_THAT(launcher.output(), HasSubstr("rank 1 of 2"));
  EXPECT_THAT(launcher.output(), Not(HasSubstr("of 3")));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
}

TEST_F(ElasticLauncherTest, but_never_on_fewer_than_the_minimum) {
  TestProcess launcher(launch(4, 3, 3, /*deaths=*/3, /*victim=*/3));
  ASSERT_TRUE(launcher.writes("trains", 4));
  EXPECT_THAT(launcher.output(), HasSubstr("starting again on 4 ranks: restart 3 of at most 3"));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
}

TEST_F(ElasticLauncherTest, gives_up_with_the_exit_code_of_the_failure) {
  TestProcess launcher(launch(2, 2, 1, /*deaths=*/100, /*victim=*/0));
  EXPECT_EQ(launcher.wait(), 3);
  EXPECT_THAT(launcher.output(),
              HasSubstr("the job has failed 2 times without progress; --max-restarts is 1"));
  expect_no_process_with(word_);
}

TEST_F(ElasticLauncherTest, progress_allows_more_restarts) {
  std::ofstream(folder_ / "saves");
  TestProcess launcher(launch(2, 1, 1, /*deaths=*/4, /*victim=*/1));
  ASSERT_TRUE(launcher.writes("trains", 2, 20s)) << launcher.output();
  EXPECT_THAT(launcher.output(), HasSubstr("starting again on 2 ranks: restart 1 of at most 1"));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
}

TEST_F(ElasticLauncherTest, failures_that_a_restart_cannot_mend_end_the_job) {
  for (const int code : {1, 2}) {
    TestProcess launcher({rank_program(), "launch-elastic", "2", "1", "3", folder_.string(),
                          "exit-all", std::to_string(code), word_});
    EXPECT_EQ(launcher.wait(), code);
    EXPECT_THAT(launcher.output(), Not(HasSubstr("starting again")));
  }
}

TEST_F(ElasticLauncherTest, changes_the_number_of_ranks_on_request) {
  TestProcess launcher(launch(2, 1, 3, /*deaths=*/0, /*victim=*/0));
  ASSERT_TRUE(launcher.writes("trains", 2));
  request(4);
  ASSERT_TRUE(launcher.writes("trains", 6));
  EXPECT_TRUE(launcher.writes("saved", 2));
  EXPECT_THAT(launcher.output(), HasSubstr("the job continues on 4 ranks"));
  EXPECT_THAT(launcher.output(), HasSubstr("rank 3 of 4"));
  request(1);
  ASSERT_TRUE(launcher.writes("trains", 7));
  EXPECT_THAT(launcher.output(), HasSubstr("rank 0 of 1"));
  EXPECT_TRUE(launcher.writes("report: 1 ranks"));  // beside the ranks, which may write before it
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
  expect_no_process_with(word_);
}

TEST_F(ElasticLauncherTest, a_request_that_does_not_work_is_refused_and_nothing_stops) {
  TestProcess launcher(launch(2, 1, 3, /*deaths=*/0, /*victim=*/0));
  ASSERT_TRUE(launcher.writes("trains", 2));
  for (const int wrong : {3, 0, -7}) {
    request(wrong);
    ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder_ / "request"); }, 5s));
  }
  EXPECT_TRUE(launcher.writes("report: 2 ranks, the number of ranks is odd"));
  EXPECT_TRUE(launcher.writes("report: 2 ranks, 0 ranks: must be at least 1"));
  request(2);
  EXPECT_TRUE(launcher.writes("report: 2 ranks\n", 2));
  EXPECT_THAT(launcher.output(), Not(HasSubstr("saved")));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
}

TEST_F(ElasticLauncherTest, goes_back_if_only_the_ranks_find_out_that_it_does_not_work) {
  TestProcess launcher({rank_program(), "launch-elastic", "2", "1", "3", folder_.string(),
                        "refuse-more-than", "2", word_});
  ASSERT_TRUE(launcher.writes("rank 1 of 2"));
  request(4);
  ASSERT_TRUE(launcher.writes("rank 1 of 2", 2)) << launcher.output();
  EXPECT_TRUE(launcher.writes("report: 2 ranks, the ranks cannot run on 4 ranks"));
  EXPECT_THAT(launcher.output(), HasSubstr("the job goes back to 2 ranks"));
  ASSERT_TRUE(launcher.writes("rank 0 of 2", 2));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), kStoppedExitCode);
}

TEST_F(ElasticLauncherTest, an_abandoned_folder_in_memory_is_removed_by_the_next_launcher) {
  const std::filesystem::path abandoned = "/dev/shm/colossal-elastic-" + word_;
  std::filesystem::create_directory(abandoned);
  TestProcess launcher(launch(1, 1, 3, /*deaths=*/0, /*victim=*/0));
  ASSERT_TRUE(launcher.writes("trains"));
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  TestProcess other(launch(1, 1, 3, /*deaths=*/0, /*victim=*/0));
  ASSERT_TRUE(other.writes("trains"));
  const auto count = [] {
    const std::filesystem::directory_iterator entries("/dev/shm");
    return std::count_if(begin(entries), end(entries), [](const auto& entry) {
      return entry.path().filename().string().starts_with("colossal-elastic-");
    });
  };
  EXPECT_GE(count(), 2) << "folders of running launchers stay";
  for (TestProcess* process : {&launcher, &other}) {
    kill(process->pid(), SIGTERM);
    EXPECT_EQ(process->wait(), kStoppedExitCode);
  }
}

TEST_F(ElasticLauncherTest, a_stop_during_the_wait_before_a_restart_ends_the_job) {
  TestProcess launcher(launch(2, 2, 100, /*deaths=*/100, /*victim=*/0));
  ASSERT_TRUE(launcher.writes("restart 3 of at most 100", 1, 20s));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(2s), kStoppedExitCode);
  expect_no_process_with(word_);
}

TEST(ElasticOptions, that_cannot_be_are_refused) {
  const auto message = [](int min_ranks, int max_restarts) -> std::string {
    try {
      run_elastic_ranks({.program = "true", .num_ranks = 2},
                        {.min_ranks = min_ranks, .max_restarts = max_restarts});
      return "it ran";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message(0, 1), HasSubstr("--min-ranks is 0; expected 1 to 2"));
  EXPECT_THAT(message(3, 1), HasSubstr("--min-ranks is 3; expected 1 to 2"));
  EXPECT_THAT(message(1, -1), HasSubstr("--max-restarts is -1"));
}

}  // namespace
}  // namespace colossal::cluster
