#include "colossal/mesh/rank_grid.h"

#include <gmock/gmock.h>

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

TEST(RankGrid, OfAStrategyHasTpInnermostAndPpOutermost) {
  const RankGrid grid(Strategy{.pp = 2, .dp = 3, .sp = 1, .tp = 2});
  EXPECT_EQ(grid.num_ranks(), 12);
  EXPECT_EQ(grid.coordinate(7, grid.axis("pp")), 1);
  EXPECT_EQ(grid.coordinate(7, grid.axis("dp")), 0);
  EXPECT_EQ(grid.coordinate(7, grid.axis("tp")), 1);
  EXPECT_THAT(grid.ranks_along(7, grid.axes_of({"dp"})), ElementsAre(7, 9, 11));
  EXPECT_THAT(grid.ranks_along(7, grid.axes_of({"tp"})), ElementsAre(6, 7));
  EXPECT_THAT(grid.ranks_along(7, grid.axes_of({"pp"})), ElementsAre(1, 7));
}

TEST(RankGrid, GroupsAlongAnAxisPartitionTheRanks) {
  const RankGrid grid(Strategy{.pp = 2, .dp = 3, .sp = 2, .tp = 2});
  for (int axis = 0; axis < grid.num_axes(); ++axis) {
    for (int rank = 0; rank < grid.num_ranks(); ++rank) {
      const std::vector<int> ranks = grid.ranks_along(rank, {axis});
      EXPECT_EQ(ranks.at(grid.coordinate(rank, axis)), rank);
      for (int peer : ranks) EXPECT_EQ(grid.ranks_along(peer, {axis}), ranks);
    }
  }
}

TEST(RankGrid, FactorsGoByTheNameOfTheirAxis) {
  const RankGrid grid(Strategy{.dp = 3,
                               .tp = 8,
                               .tensor_mode = TensorMode::two_and_half_d,
                               .tp_depth = 2,
                               .key_value_replicas = 2});
  EXPECT_EQ(grid.num_ranks(), 24);
  EXPECT_THAT(grid.ranks_along(13, grid.axes_of({"tp"})),
              ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(grid.ranks_along(13, grid.axes_of({"tp.column"})), ElementsAre(12, 13));
  EXPECT_THAT(grid.ranks_along(13, grid.axes_of({"tp.row"})), ElementsAre(13, 15));
  EXPECT_THAT(grid.ranks_along(13, grid.axes_of({"tp.depth"})), ElementsAre(9, 13));
  EXPECT_EQ(grid.coordinate(13, grid.axes_of({"tp.depth", "tp.row"})), 2);
  EXPECT_EQ(grid.joined_name(grid.axes_of({"tp"})), "tp");
  EXPECT_EQ(grid.joined_name(grid.axes_of({"tp.column.query"})), "tp.column");
  EXPECT_EQ(grid.joined_name(grid.axes_of({"dp", "tp.depth", "tp.column"})),
            "dp+tp.depth+tp.column");
  EXPECT_EQ(grid.joined_name(grid.axes_of({"pp", "dp", "sp", "tp"})), "dp+tp");
}

TEST(RankGrid, JoinedNamesLeaveOutAxesOfSizeOne) {
  const RankGrid grid(Strategy{.dp = 2, .sp = 2});
  EXPECT_EQ(grid.joined_name(grid.axes_of({"dp", "sp"})), "dp+sp");
  EXPECT_EQ(grid.joined_name(grid.axes_of({"pp", "dp"})), "dp");
  EXPECT_EQ(grid.joined_name(grid.axes_of({"pp", "tp"})), "pp");
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
