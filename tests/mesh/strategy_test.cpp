#include "colossal/mesh/strategy.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

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

TEST(Strategy, RefusalsNameTheSettingsAndWhatTheyComeTo) {
  EXPECT_THAT(refusal({.dp = 3}, true, 4),
              HasSubstr("parallel.dp = 3 x pp 1 x sp 1 x tp 1 makes 3 ranks, but there are 4"));
  EXPECT_THAT(refusal({.tp = 4}, false, 6),
              HasSubstr("6 ranks are not a multiple of pp 1 x sp 1 x tp 4 = 4"));
  EXPECT_THAT(refusal({.dp = 0}, true, 1), HasSubstr("parallel.dp = 0"));
}

TEST(Strategy, ExpertsRegroupTheRanksOfAStage) {
  const Strategy experts{.dp = 3, .tp = 4, .ep = 2, .expert_tp = 2};
  EXPECT_EQ(experts.world_size(), 12);
  EXPECT_THAT(experts.expert_axes(),
              ElementsAre(Pair("expert_dp", 3), Pair("ep", 2), Pair("expert_tp", 2)));
  EXPECT_EQ(refusal(experts, true, 12), "accepted");
  EXPECT_EQ(refusal({.dp = 2, .sp = 3, .tp = 2, .ep = 12}, true, 12), "accepted");
  EXPECT_EQ(refusal({.dp = 2, .ep = 0}, true, 2), "parallel.ep = 0: must be at least 1");
  EXPECT_EQ(refusal({.dp = 2, .expert_tp = 0}, true, 2),
            "parallel.expert_tp = 0: must be at least 1");
  EXPECT_EQ(refusal({.dp = 2, .tp = 3, .ep = 4}, true, 6),
            "parallel.ep = 4 does not divide dp 2 x sp 1 x tp 3 = 6; use ep = 1, 2, 3 or 6");
  EXPECT_EQ(
      refusal({.dp = 2, .tp = 3, .ep = 2, .expert_tp = 2}, true, 6),
      "parallel.ep = 2 x expert_tp 2 does not divide dp 2 x sp 1 x tp 3 = 6; use ep = 1 or 3");
  EXPECT_EQ(refusal({.dp = 2, .expert_tp = 4}, true, 2),
            "parallel.ep = 1 x expert_tp 4 does not divide dp 2 x sp 1 x tp 1 = 2; use "
            "expert_tp = 1");
  // A pipeline's stages have experts of their own.
  EXPECT_THAT(refusal({.pp = 2, .dp = 2, .ep = 4}, true, 4), HasSubstr("= 2; use ep = 1 or 2"));
}

TEST(Strategy, ExpertsLieWithinGroupsThatShareOutOrSpanWholeOnes) {
  const auto experts = [](int dp, int tp, int group, int ep) {
    return Strategy{.dp = dp, .tp = tp, .ep = ep, .zero = 1, .zero_group = group};
  };
  // 4 x 2 ranks in groups of 2 x 2: experts over 2 of them are there twice.
  EXPECT_THAT(experts(4, 2, 2, 2).expert_axes(),
              ElementsAre(Pair("expert_dp.replica", 2), Pair("expert_dp.shard", 2), Pair("ep", 2),
                          Pair("expert_tp", 1)));
  // Over 8 in two groups: no rank of a group holds the same as another.
  EXPECT_THAT(experts(8, 2, 2, 8).expert_axes(),
              ElementsAre(Pair("expert_dp.replica", 2), Pair("expert_dp.shard", 1), Pair("ep", 8),
                          Pair("expert_tp", 1)));
  EXPECT_EQ(refusal(experts(8, 2, 2, 8), true, 16), "accepted");
  EXPECT_EQ(refusal(experts(6, 1, 2, 3), true, 6),
            "parallel.ep = 3 and parallel.zero_group = 2 x tp 1 do not divide one another; use "
            "ep = 1, 2 or 6");
}

TEST(Strategy, GroupsThatShareOutAreOfWholeSequencesOrPartsOfOne) {
  const auto groups = [](int dp, int sp, int size) {
    return Strategy{.dp = dp, .sp = sp, .zero = 3, .zero_group = size};
  };
  EXPECT_THAT(groups(4, 3, 6).data_axes(),
              ElementsAre(Pair("dp.replica", 2), Pair("dp.shard", 2), Pair("sp", 3)));
  EXPECT_THAT(groups(4, 6, 2).data_axes(),
              ElementsAre(Pair("dp", 4), Pair("sp.replica", 3), Pair("sp.shard", 2)));
  for (int size : {1, 3, 6, 12}) EXPECT_EQ(refusal(groups(4, 3, size), true, 12), "accepted");
  EXPECT_THAT(refusal(groups(4, 3, 5), true, 12),
              HasSubstr("parallel.zero_group = 5 is not a multiple of a sequence's 3 ranks; with "
                        "dp 4 x sp 3 use 1, 3, 6 or 12"));
  EXPECT_THAT(refusal(groups(2, 3, 2), true, 6),
              HasSubstr("parallel.zero_group = 2 would split a sequence's 3 ranks unevenly; with "
                        "dp 2 x sp 3 use 1, 3 or 6"));
  EXPECT_THAT(refusal(groups(4, 3, 9), true, 12), HasSubstr("would split the replicas unevenly"));
  EXPECT_THAT(refusal(groups(4, 3, 100), true, 12), HasSubstr("use 1, 3, 6 or 12"));
  Strategy nothing_shared = groups(4, 1, 2);
  nothing_shared.zero = 0;
  EXPECT_THAT(refusal(nothing_shared, true, 4), HasSubstr("parallel.zero = 0 shards nothing"));
}

TEST(Strategy, ATensorModeSaysWhichSizesItNeeds) {
  const auto mode = [](TensorMode mode, int tp, int depth = 1) {
    return Strategy{.tp = tp, .tensor_mode = mode, .tp_depth = depth};
  };
  EXPECT_THAT(refusal(mode(TensorMode::two_d, 6), false, 6),
              HasSubstr("\"2d\" needs a square of ranks, q x q; parallel.tp = 6 is not one"));
  EXPECT_THAT(refusal(mode(TensorMode::three_d, 12), false, 24), HasSubstr("a cube of ranks"));
  EXPECT_THAT(refusal(mode(TensorMode::two_and_half_d, 12, 2), false, 24),
              HasSubstr("parallel.tp = 12 with tp_depth = 2 is not one"));
  EXPECT_THAT(
      refusal(mode(TensorMode::one_d, 4, 2), false, 4),
      HasSubstr("parallel.tp_depth = 2 applies only to parallel.tp_mode = \"2.5d\"; tp_mode "
                "is \"1d\""));
  EXPECT_EQ(resolve_strategy(mode(TensorMode::two_and_half_d, 12, 3), false, 24).dp, 2);
  EXPECT_EQ(resolve_strategy(mode(TensorMode::three_d, 27), false, 27).tensor_side(), 3);
}

TEST(Strategy, AxesOfATensorModeMakeTp) {
  Strategy strategy{.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2};
  EXPECT_THAT(strategy.tensor_axes(),
              ElementsAre(Pair("tp.depth", 2), Pair("tp.row", 2), Pair("tp.column", 2)));
  strategy = {.tp = 8, .tensor_mode = TensorMode::three_d, .key_value_replicas = 2};
  EXPECT_THAT(strategy.tensor_axes(), ElementsAre(Pair("tp.i", 2), Pair("tp.j", 2),
                                                  Pair("tp.l.kv", 1), Pair("tp.l.query", 2)));
}

}  // namespace
}  // namespace colossal
