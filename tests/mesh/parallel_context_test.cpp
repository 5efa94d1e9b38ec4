#include "colossal/mesh/parallel_context.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/run_ranks.h"

namespace colossal {
namespace {

TEST(ParallelContext, GroupsOfTheSameRanksAreOneGroup) {
  test::run_ranks(4, [](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 4});
    EXPECT_EQ(&context.group(Axis::dp), &context.data_group());
    EXPECT_EQ(&context.group(Axis::dp), &context.world_group());
    EXPECT_EQ(context.group(Axis::tp).size(), 1);
    EXPECT_EQ(context.data_group().axis(), "dp");
    EXPECT_EQ(context.coordinate(Axis::dp), world.rank());
  });
}

TEST(ParallelContext, AxesOfAMeshHaveTheirOwnGroups) {
  test::run_ranks(6, [](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 3, .tp = 2});
    EXPECT_EQ(context.group(Axis::dp).size(), 3);
    EXPECT_EQ(context.group(Axis::tp).size(), 2);
    EXPECT_EQ(context.world_group().size(), 6);
    EXPECT_EQ(context.world_group().axis(), "dp+tp");
    at::Tensor sum = at::full({1}, world.rank(), at::kLong);
    comm::all_reduce(sum, context.group(Axis::tp), comm::Reason::tensor);
    EXPECT_EQ(sum.item<int64_t>(), world.rank() / 2 * 4 + 1);
  });
}

TEST(ParallelContext, GroupsShareOutAmongNeighbours) {
  test::run_ranks(8, [](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 4, .tp = 2, .zero = 1, .zero_group = 2});
    const int first = world.rank() / 4 * 4, odd = world.rank() % 2;
    EXPECT_EQ(context.data_group().axis(), "dp");
    const comm::Group& shards = context.shard_group(context.data_group());
    EXPECT_EQ(shards.axis(), "dp.shard");
    EXPECT_EQ(shards.ranks(), (std::vector{first + odd, first + odd + 2}));
    const comm::Group& all = context.shard_group(context.along({"dp", "sp", "tp"}));
    EXPECT_EQ(all.ranks(), (std::vector{first, first + 1, first + 2, first + 3}));
    const int place = world.rank() % 4;
    EXPECT_EQ(context.replica_group(context.data_group()).ranks(), (std::vector{place, place + 4}));
  });
}

TEST(ParallelContext, ExpertsHaveGroupsOfTheirOwn) {
  test::run_ranks(12, [](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 3, .tp = 4, .ep = 2, .expert_tp = 2});
    const int first = world.rank() / 4 * 4, odd = world.rank() % 2, place = world.rank() % 4;
    EXPECT_EQ(context.expert_parts_group().axis(), "expert_tp");
    EXPECT_EQ(context.expert_parts_group().ranks(),
              (std::vector{world.rank() - odd, world.rank() - odd + 1}));
    EXPECT_EQ(context.expert_group().axis(), "ep");
    EXPECT_EQ(context.expert_group().ranks(), (std::vector{first + odd, first + odd + 2}));
    EXPECT_EQ(context.same_experts_group().axis(), "expert_dp");
    EXPECT_EQ(context.same_experts_group().ranks(), (std::vector{place, place + 4, place + 8}));
    EXPECT_EQ(context.replica_group(context.same_experts_group()).size(), 1);
    const std::vector<std::string> axes = context.ledger_axes();
    for (const char* axis : {"ep", "expert_dp", "expert_tp"}) {
      EXPECT_EQ(std::ranges::count(axes, axis), 1) << axis;
    }
  });
}

// Of each stage of a pipeline; tokens of one stay among its ranks.
TEST(ParallelContext, ExpertsOfAStageStayThere) {
  test::run_ranks(8, [](comm::World& world) {
    const ParallelContext context(world, Strategy{.pp = 2, .dp = 2, .sp = 2, .ep = 4});
    const int first = world.rank() / 4 * 4;
    EXPECT_EQ(context.expert_group().ranks(),
              (std::vector{first, first + 1, first + 2, first + 3}));
    EXPECT_EQ(context.same_experts_group().size(), 1);
  });
}

TEST(ParallelContext, ExpertsThatNobodySharesOutAreTheSameOnAllRanksOfAStage) {
  test::run_ranks(8, [](comm::World& world) {
    const ParallelContext context(world,
                                  Strategy{.pp = 2, .dp = 2, .tp = 2, .zero = 1, .zero_group = 1});
    EXPECT_EQ(&context.same_experts_group(), &context.stage_group());
    EXPECT_EQ(context.expert_group().size(), 1);
    EXPECT_EQ(context.expert_parts_group().size(), 1);
    EXPECT_EQ(context.shard_group(context.same_experts_group()).size(), 2);
    EXPECT_EQ(context.replica_group(context.same_experts_group()).size(), 2);
  });
}

TEST(ParallelContext, StateOfExpertsIsSharedOutWithinAGroup) {
  test::run_ranks(8, [](comm::World& world) {
    const auto strategy_of = [&](int zero_group, int ep) {
      return Strategy{.dp = 4, .tp = 2, .ep = ep, .zero = 1, .zero_group = zero_group};
    };
    const int first = world.rank() / 4 * 4, odd = world.rank() % 2, place = world.rank() % 4;
    {
      const ParallelContext context(world, strategy_of(2, 2));
      const comm::Group& same = context.same_experts_group();
      EXPECT_EQ(context.shard_group(same).ranks(), (std::vector{first + odd, first + odd + 2}));
      EXPECT_EQ(context.replica_group(same).ranks(), (std::vector{place, place + 4}));
    }
    {  // Groups of two ranks, experts over four: each group has half of them.
      const ParallelContext context(world, strategy_of(1, 4));
      const comm::Group& same = context.same_experts_group();
      EXPECT_EQ(context.shard_group(same).size(), 1);
      EXPECT_EQ(context.replica_group(same).ranks(), (std::vector{place, place + 4}));
    }
  });
}

TEST(ParallelContext, FactorsOfTpHaveTheirOwnGroups) {
  test::run_ranks(4, [](comm::World& world) {
    const ParallelContext context(world, Strategy{.tp = 4, .tensor_mode = TensorMode::two_d});
    const int row = world.rank() / 2, column = world.rank() % 2;
    EXPECT_EQ(context.coordinate({"tp.row"}), row);
    EXPECT_EQ(context.along({"tp.column"}).ranks(), (std::vector{2 * row, 2 * row + 1}));
    EXPECT_EQ(context.along({"tp.row"}).ranks(), (std::vector{column, column + 2}));
    EXPECT_EQ(&context.along({"tp"}), &context.world_group());
    EXPECT_EQ(context.transpose_group().size(), row == column ? 1 : 2);
    EXPECT_EQ(context.transpose_group().ranks().front(), row == column ? world.rank() : 1);
  });
}

}  // namespace
}  // namespace colossal
