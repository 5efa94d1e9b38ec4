// The values of the table in docs/laws.md, computed by hand.
#include "colossal/comm/law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colossal::comm {
namespace {

using testing::ElementsAre;

TEST(Law, EvenPartsDifferByOneAtMost) {
  EXPECT_THAT(even_counts(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(even_counts(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(even_counts(2, 3), ElementsAre(1, 1, 0));
  EXPECT_THAT(even_counts(0, 2), ElementsAre(0, 0));
}

TEST(Law, OffsetsEndWithTheTotal) {
  EXPECT_THAT(offsets_of(std::vector<int64_t>{3, 0, 2}), ElementsAre(0, 3, 3, 5));
}

TEST(Law, AllGatherSendsTheOwnPartToEachPeer) {
  const std::vector<int64_t> counts{5, 0, 2};
  EXPECT_EQ(law::all_gather(counts, 0, 4), 2 * 5 * 4);
  EXPECT_EQ(law::all_gather(counts, 1, 4), 0);
  EXPECT_EQ(law::all_gather(counts, 2, 4), 2 * 2 * 4);
}

TEST(Law, ReduceScatterSendsAllButTheOwnPart) {
  const std::vector<int64_t> counts{5, 0, 2};
  EXPECT_EQ(law::reduce_scatter(counts, 0, 4), 2 * 4);
  EXPECT_EQ(law::reduce_scatter(counts, 1, 4), 7 * 4);
  EXPECT_EQ(law::reduce_scatter(counts, 2, 4), 5 * 4);
}

TEST(Law, AllReduceIsTwiceTheShareWhenEven) {
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(law::all_reduce(1000, 4, rank, 2), 2 * 3 * 1000 / 4 * 2);
  }
}

TEST(Law, UnevenAllReduceIsExact) {
  // Parts of 3, 2 and 2 elements: (7 - own) + 2 * own.
  EXPECT_EQ(law::all_reduce(7, 3, 0, 8), (7 + 3) * 8);
  EXPECT_EQ(law::all_reduce(7, 3, 1, 8), (7 + 2) * 8);
  // Two ranks send the tensor once, however it is divided.
  EXPECT_EQ(law::all_reduce(7, 2, 0, 8), 7 * 8);
  EXPECT_EQ(law::all_reduce(7, 2, 1, 8), 7 * 8);
}

TEST(Law, AllToAllSendsThePartsForOthers) {
  EXPECT_EQ(law::all_to_all(std::vector<int64_t>{1, 2, 3}, 1, 4), (1 + 3) * 4);
}

TEST(Law, BroadcastIsAChainFromTheRoot) {
  EXPECT_EQ(law::broadcast(10, 3, 1, 1, 4), 40);
  EXPECT_EQ(law::broadcast(10, 3, 2, 1, 4), 40);
  EXPECT_EQ(law::broadcast(10, 3, 0, 1, 4), 0);
}

}  // namespace
}  // namespace colossal::comm
