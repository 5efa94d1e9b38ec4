#include "colossal/mesh/parallel_context.h"

#include <gtest/gtest.h>

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
    EXPECT_EQ(context.replica_group().ranks(), (std::vector{place, place + 4}));
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
    EXPECT_EQ(context.mirror_group().size(), row == column ? 1 : 2);
    EXPECT_EQ(context.mirror_group().ranks().front(), row == column ? world.rank() : 1);
  });
}

}  // namespace
}  // namespace colossal
