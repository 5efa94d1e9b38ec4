// Ranks that were started with different settings are told so when they meet.
#include "colossal/comm/agreement.h"
#include "colossal/comm/gpus.h"

#include <gmock/gmock.h>

#include <thread>

#include "colossal/base/error.h"
#include "tests/support/run_ranks.h"

namespace colossal::comm {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// Returns what connect() throws on each rank, or "joined".
std::vector<std::string> meet(const std::vector<Settings>& settings,
                              const WorldKind& kind = {.backend = "shm", .device = "cpu"}) {
  const test::Listener listener = test::listen_on_loopback();
  const int ranks = static_cast<int>(settings.size());
  std::vector<std::string> answers(ranks, "joined");
  // Rank 0's world serves the store, so it must live until all ranks have met.
  std::vector<std::unique_ptr<World>> worlds(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        worlds[rank] = connect(test::rendezvous_at(listener, rank, ranks), kind,
                               std::chrono::seconds(60), settings[rank]);
      } catch (const ConfigError& error) {
        answers[rank] = error.what();
      }
    });
  }
  threads.clear();
  return answers;
}

TEST(Agreement, AllRanksRefuseGpusThatOneLacks) {
  if (num_gpus() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(meet({{}, {}}, {.device = "gpu"}),
              Each(HasSubstr("device \"gpu\": rank 0 can use no GPU")));
  EXPECT_THAT(meet({{}, {}}, {.backend = "nccl"}),
              Each(HasSubstr("backend \"nccl\": rank 0 can use no GPU")));
}

TEST(Agreement, NamesTheSettingTheRanksAndBothValues) {
  const Settings usual{{"optimizer.learning_rate", "0.001"}, {"train.seed", "0"}};
  const Settings other{{"optimizer.learning_rate", "0.01"}, {"train.seed", "0"}};
  EXPECT_THAT(meet({usual, usual, {usual.rbegin(), usual.rend()}}), Each("joined"));
  EXPECT_THAT(meet({usual, usual, other, other}),
              Each("rank 2 has optimizer.learning_rate = 0.01, rank 0 has 0.001: all ranks must be "
                   "started with the same program, settings and data"));
}

TEST(Agreement, OfSeveralDifferencesTheFirstIsShownAndTheOthersNamed) {
  const Settings first{{"a", "1"}, {"b", "2"}, {"c", "3"}};
  const Settings second{{"a", "1"}, {"b", "4"}, {"d", "5"}};
  EXPECT_THAT(describe_difference(first, 7, second),
              AllOf(HasSubstr("rank 7 has b = 4, rank 0 has 2, and c, d differ too: ")));
  EXPECT_THAT(describe_difference({}, 1, {{"d", "5"}}), HasSubstr("d = 5, rank 0 has none: "));
  EXPECT_EQ(describe_difference(first, 1, first), "");
}

TEST(Agreement, TakesPathsOfAnyBytes) {
  EXPECT_THAT(meet({{{"checkpoint.directory", "\xff/a"}}, {{"checkpoint.directory", "\xff/b"}}}),
              Each(HasSubstr("checkpoint.directory")));
}

}  // namespace
}  // namespace colossal::comm
