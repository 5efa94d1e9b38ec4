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
