// Gradients of weights that are put off: gone from the backward pass, and the same bits afterwards.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "colossal/mesh/parallel_context.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/parallel/builder.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::split_backward {
namespace {

constexpr int64_t kHidden = 8, kInner = 12;

struct Case {
  Strategy strategy;
  std::vector<int64_t> x_here;  // of so many sequences of three tokens
  int64_t sequences = 2;
};

// The two products of a pair, and the input of the first.
struct Pair {
  Pair(nn::Builder& build, const Case& c)
      : up(build.linear("up", {kHidden, kInner})),
        down(build.linear("down", {kInner, kHidden})),
        step(nn::make_step_context(c.sequences, 3, at::kCPU)) {
    for (const nn::ParameterHandle& parameter : build.parameters()) {
      parameter->tensor = some(parameter->local_shape());
      parameters.push_back(parameter);
    }
    x = some(c.x_here);
  }

  static at::Tensor some(const std::vector<int64_t>& shape) {
    const int64_t numel = c10::multiply_integers(shape);
    return at::arange(numel, at::kDouble).mul(0.7).sin().view(shape).requires_grad_();
  }

  void backward() {
    const at::Tensor y = down->forward(up->forward(x, step), step);
    torch::autograd::backward({y}, {at::ones_like(y)});
  }

  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> gradients{std::move(x.mutable_grad())};
    for (const nn::ParameterHandle& parameter : parameters) {
      gradients.push_back(std::move(parameter->tensor.mutable_grad()));
    }
    return gradients;
  }

  std::unique_ptr<nn::Linear> up, down;
  nn::ParameterList parameters;
  at::Tensor x;
  nn::StepContext step;
};

void expect_put_off(const Case& c) {
  using Cut = parallel::LinearSharding::Cut;
  parallel::Sharding sharding{.heads = 2, .kv_heads = 2, .head_size = 4};
  sharding.products["up"] = {.cut = Cut::outputs, .segments = {{kInner}}};
  sharding.products["down"] = {.cut = Cut::inputs, .segments = {{kInner}}};
  run_ranks(c.strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, c.strategy);
    const auto build = parallel::make_builder(context, {sharding});
    Pair pair(*build, c);
    pair.backward();
    const std::vector<at::Tensor> whole = pair.take_gradients();
    ops::DeferredGradients later;
    {
      const ops::DeferredGradients::Scope scope(later);
      pair.backward();
    }
    EXPECT_TRUE(at::equal(pair.x.grad(), whole[0]));
    for (const nn::ParameterHandle& parameter : pair.parameters) {
      if (!parameter->name.ends_with(".weight")) continue;
      EXPECT_FALSE(parameter->tensor.grad().defined()) << parameter->name;
    }
    later.run();
    const std::vector<at::Tensor> halves = pair.take_gradients();
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::equal(halves[i], whole[i])) << i;
  });
}

TEST(SplitBackward, OfDenseProducts) {
  expect_put_off({{}, {2, 3, kHidden}});
}

TEST(SplitBackward, OfProductsOverOneDimension) {
  expect_put_off({{.tp = 2}, {3, kHidden}});
  expect_put_off({{.tp = 2, .tp_sequence = false}, {2, 3, kHidden}});
}

TEST(SplitBackward, OfProductsOverSquares) {
  expect_put_off({{.tp = 4, .tensor_mode = TensorMode::two_d}, {1, 3, kHidden / 2}});
  expect_put_off({{.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2},
                  {1, 3, kHidden / 2},
                  /*sequences=*/4});
}

}  // namespace
}  // namespace colossal::test::split_backward
