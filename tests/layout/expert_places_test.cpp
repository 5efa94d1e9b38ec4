#include "colossal/layout/expert_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace colossal::test {
namespace {

using testing::ElementsAre;

TEST(ExpertPlaces, BusyExpertsGoToDifferentRanks) {
  EXPECT_THAT(place_by_load({90, 80, 10, 20}, Partition(4, 2)), ElementsAre(0, 2, 1, 3));
}

TEST(ExpertPlaces, EqualLoadsKeepTheNumbersApart) {
  EXPECT_THAT(place_by_load({1, 1, 1, 1}, Partition(4, 2)), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(place_by_load({0, 0, 0, 0}, Partition(4, 2)), ElementsAre(0, 1, 2, 3));
}

// 6 over 4 ranks are 2, 2, 1 and 1, however busy they are.
TEST(ExpertPlaces, RanksHaveAsManyAsTheirShare) {
  const std::vector<int64_t> rows{3, 100, 4, 90, 80, 2};
  const std::vector<int64_t> places = place_by_load(rows, Partition(6, 4));
  EXPECT_THAT(places, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
  const Partition experts(6, 4);
  std::vector<int64_t> loads;
  for (int rank = 0; rank < 4; ++rank) {
    int64_t& load = loads.emplace_back(0);
    for (int64_t i = experts.range(rank).begin; i < experts.range(rank).end; ++i) {
      load += rows[places[i]];
    }
  }
  EXPECT_EQ(*std::ranges::max_element(loads), 102);
}

}  // namespace
}  // namespace colossal::test
