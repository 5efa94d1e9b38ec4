#include "colossal/checkpoint/all_or_none.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "tests/support/run_ranks.h"

namespace colossal::checkpoint {
namespace {

// Returns the message of the error E that each of four ranks throws. Expects the same message on
// all.
template <class E>
std::string failure(const std::function<std::string(int rank)>& work) {
  std::vector<std::string> words(4);
  test::run_ranks(4, [&](comm::World& world) {
    try {
      all_or_none(world.group("all", {0, 1, 2, 3}), [&] { return work(world.rank()); });
      ADD_FAILURE() << "rank " << world.rank() << " did not fail";
    } catch (const E& error) {
      words[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_THAT(words, testing::Each(words.front()));
  return words.front();
}

TEST(Together, GivesWhatEachRankReturned) {
  test::run_ranks(3, [&](comm::World& world) {
    const comm::Group all = world.group("all", {0, 1, 2});
    EXPECT_THAT(all_or_none(all, [&] { return std::to_string(world.rank()); }),
                testing::ElementsAre("0", "1", "2"));
    EXPECT_EQ(on_first_rank(all, [&] { return std::to_string(world.rank()); }), "0");
  });
}

TEST(Together, NamesTheRanksThatFailedOnceForEachReason) {
  EXPECT_EQ(failure<IoError>([](int rank) -> std::string {
              if (rank == 3) throw std::runtime_error("no disk");
              if (rank != 1) throw IoError("full");
              return "";
            }),
            "ranks 0, 2: full; rank 3: no disk");
  EXPECT_EQ(failure<IoError>([](int) -> std::string { throw IoError("full"); }),
            "all 4 ranks: full");
}

TEST(Together, AMistakeInTheSettingsStaysOne) {
  EXPECT_EQ(failure<ConfigError>([](int rank) -> std::string {
              if (rank == 0) throw ConfigError("key = 1: use 2");
              return "";
            }),
            "key = 1: use 2");
  EXPECT_EQ(failure<IoError>([](int rank) -> std::string {
              if (rank == 0) throw ConfigError("key = 1: use 2");
              throw IoError("full");
            }),
            "rank 0: key = 1: use 2; ranks 1, 2, 3: full");
}

}  // namespace
}  // namespace colossal::checkpoint
