#include "colossal/mesh/device_mesh.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DeviceMesh, TpIsInnermostAndPpOutermost) {
  const DeviceMesh mesh(Strategy{.pp = 2, .dp = 3, .sp = 1, .tp = 2});
  EXPECT_EQ(mesh.size(), 12);
  EXPECT_EQ(mesh.coordinate(7, Axis::pp), 1);
  EXPECT_EQ(mesh.coordinate(7, Axis::dp), 0);
  EXPECT_EQ(mesh.coordinate(7, Axis::tp), 1);
  EXPECT_THAT(mesh.ranks_along(7, {Axis::dp}), ElementsAre(7, 9, 11));
  EXPECT_THAT(mesh.ranks_along(7, {Axis::tp}), ElementsAre(6, 7));
  EXPECT_THAT(mesh.ranks_along(7, {Axis::pp}), ElementsAre(1, 7));
}

TEST(DeviceMesh, GroupsAlongAnAxisPartitionTheRanks) {
  const DeviceMesh mesh(Strategy{.pp = 2, .dp = 3, .sp = 2, .tp = 2});
  for (Axis axis : kAxes) {
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const std::vector<int> ranks = mesh.ranks_along(rank, {axis});
      EXPECT_EQ(ranks.at(mesh.coordinate(rank, axis)), rank);
      for (int peer : ranks) EXPECT_EQ(mesh.ranks_along(peer, {axis}), ranks);
    }
  }
}

TEST(DeviceMesh, JoinedNamesLeaveOutAxesOfSizeOne) {
  const DeviceMesh mesh(Strategy{.dp = 2, .sp = 2});
  EXPECT_EQ(mesh.joined_name({Axis::dp, Axis::sp}), "dp+sp");
  EXPECT_EQ(mesh.joined_name({Axis::pp, Axis::dp}), "dp");
  EXPECT_EQ(mesh.joined_name({Axis::pp, Axis::tp}), "pp");
}

std::string refusal(Strategy strategy, bool dp_given, int ranks) {
  try {
    resolve_strategy(strategy, dp_given, ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Strategy, InfersReplicasFromTheRanks) {
  EXPECT_EQ(resolve_strategy({.tp = 2}, false, 6).dp, 3);
  EXPECT_EQ(resolve_strategy({}, false, 1).dp, 1);
}

TEST(Strategy, RefusalsNameTheSettingsAndWhatWouldFit) {
  EXPECT_THAT(refusal({.dp = 3}, true, 4), HasSubstr("parallel.dp = 4 or --ranks=3"));
  EXPECT_THAT(refusal({.tp = 4}, false, 6), HasSubstr("--ranks=8 would fit"));
  EXPECT_THAT(refusal({.dp = 0}, true, 1), HasSubstr("parallel.dp = 0"));
  EXPECT_THAT(refusal({.dp = 2, .ep = 3}, true, 2), HasSubstr("parallel.ep = 3"));
}

}  // namespace
}  // namespace colossal
