// A model whose ranks do not call the same collectives in the same order: every rank learns it,
// with the axis, the rank and what each called.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/parallel/builder.h"
#include "tests/support/run_ranks.h"

namespace colossal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kHidden = 8;
constexpr int kUpInVain = -1;  // a first product whose result nothing uses

// Two pairs of products, one after the other; `order` says which, as each rank has it.
class TwoPairs {
 public:
  explicit TwoPairs(nn::Builder& build) {
    for (int pair = 0; pair < 2; ++pair) {
      up_.push_back(build.linear(fmt::format("up{}", pair), {kHidden, 4 * kHidden}));
      down_.push_back(build.linear(fmt::format("down{}", pair), {4 * kHidden, kHidden}));
    }
    for (const nn::ParameterHandle& parameter : build.parameters()) {
      parameter->tensor = at::ones(parameter->local_shape());
    }
  }

  at::Tensor forward(at::Tensor x, const std::vector<int>& order, const nn::StepContext& context) {
    for (const int half : order) {
      if (half == kUpInVain) {
        up_[0]->forward(x, context);
      } else {
        x = (half % 2 == 0 ? up_ : down_)[half / 2]->forward(x, context);
      }
    }
    return x;
  }

 private:
  std::vector<std::unique_ptr<nn::Linear>> up_, down_;
};

// What a rank says when rank 1 runs the halves in `order`, the others in theirs.
std::string failure_with(const std::vector<int>& order) {
  using Cut = parallel::LinearSharding::Cut;
  parallel::Sharding sharding{.heads = 2, .kv_heads = 2, .head_size = 4};
  for (int pair = 0; pair < 2; ++pair) {
    sharding.products[fmt::format("up{}", pair)] = {.cut = Cut::outputs,
                                                    .segments = {{4 * kHidden}}};
    sharding.products[fmt::format("down{}", pair)] = {.cut = Cut::inputs,
                                                      .segments = {{4 * kHidden}}};
  }
  try {
    run_ranks(
        2,
        [&](comm::World& world) {
          const ParallelContext context(world, {.tp = 2});
          const auto build = parallel::make_builder(context, {sharding});
          TwoPairs model(*build);
          const nn::StepContext step = nn::make_step_context(2, 3, at::kCPU);
          const at::Tensor x = at::ones({3, kHidden});  // of six tokens this rank's
          model.forward(x, world.rank() == 1 ? order : std::vector{0, 1, 2, 3}, step);
        },
        std::chrono::milliseconds(300));
  } catch (const CommError& error) {
    return error.what();
  }
  return "no failure";
}

TEST(Order, TheSameOnAllRanksIsFine) {
  EXPECT_EQ(failure_with({0, 1, 2, 3}), "no failure");
}

TEST(Order, ARankThatStopsEarlyIsNamedAfterTheTimeout) {
  EXPECT_THAT(failure_with({0, 1, 2}), AllOf(HasSubstr("rank 0"), HasSubstr("axis \"tp\""),
                                             HasSubstr("reduce_scatter"), HasSubstr("rank 1")));
}

// Between the pairs rank 1 gathers once more, and so again where the other sums.
TEST(Order, ARankThatCallsAnotherIsNamedWithBoth) {
  const std::string message = failure_with({0, 1, kUpInVain, 2, 3});
  EXPECT_THAT(message, AllOf(HasSubstr("axis \"tp\""), HasSubstr("rank 1"),
                             HasSubstr("reduce_scatter"), HasSubstr("all_gather")));
}

}  // namespace
}  // namespace colossal::test
