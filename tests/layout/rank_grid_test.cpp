#include "colossal/layout/rank_grid.h"

#include <gmock/gmock.h>

#include "colossal/mesh/device_mesh.h"

namespace colossal {
namespace {

using testing::ElementsAre;

TEST(RankGrid, TheLastAxisIsTheInnermost) {
  const RankGrid grid({{"a", 2}, {"b", 3}, {"c", 2}});
  EXPECT_EQ(grid.num_ranks(), 12);
  EXPECT_EQ(grid.axis("b"), 1);
  EXPECT_EQ(grid.coordinate(9, 0), 1);
  EXPECT_EQ(grid.coordinate(9, 1), 1);
  EXPECT_EQ(grid.coordinate(9, 2), 1);
  EXPECT_THAT(grid.ranks_along(9, {1}), ElementsAre(7, 9, 11));
  EXPECT_THAT(grid.ranks_along(9, {0, 2}), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(grid.ranks_along(9, {}), ElementsAre(9));
  EXPECT_EQ(grid.joined_name({0, 2}), "a+c");
}

TEST(RankGrid, OfAStrategyIsItsMesh) {
  const Strategy strategy{.pp = 2, .dp = 3, .sp = 2, .tp = 2};
  const DeviceMesh mesh(strategy);
  const RankGrid grid(strategy);
  ASSERT_EQ(grid.num_ranks(), mesh.size());
  for (int rank = 0; rank < mesh.size(); ++rank) {
    for (Axis axis : kAxes) {
      EXPECT_EQ(grid.coordinate(rank, grid.axis(axis_name(axis))), mesh.coordinate(rank, axis));
      EXPECT_EQ(grid.ranks_along(rank, {grid.axis(axis_name(axis))}),
                mesh.ranks_along(rank, {axis}));
    }
  }
}

TEST(RankGrid, FactorsOfAnAxisKeepItsRanks) {
  const RankGrid grid({{"dp", 2}, {"tp", 12}});
  const RankGrid split = grid.split("tp", {{"depth", 3}, {"row", 2}, {"column", 2}});
  EXPECT_EQ(split.num_ranks(), 24);
  for (int rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(split.coordinate(rank, 0), grid.coordinate(rank, 0));
    EXPECT_EQ(split.ranks_along(rank, {1, 2, 3}), grid.ranks_along(rank, {1}));
    EXPECT_EQ(
        split.coordinate(rank, 1) * 4 + split.coordinate(rank, 2) * 2 + split.coordinate(rank, 3),
        grid.coordinate(rank, 1));
  }
}

}  // namespace
}  // namespace colossal
