#include "colossal/memory/chunk_engine.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/run_ranks.h"

namespace colossal::memory {
namespace {

nn::ParameterList make_parameters() {
  const auto make = [](std::string name, std::vector<int64_t> shape, bool trainable) {
    return nn::ParameterHandle(
        std::make_shared<nn::Parameter>(nn::Parameter{.name = std::move(name),
                                                      .shape = std::move(shape),
                                                      .initializer = nn::Initializer::normal(0.5),
                                                      .trainable = trainable}));
  };
  return {make("used", {5, 7}, true), make("frozen", {3, 3}, true),
          make("on_one_rank", {4, 6}, true), make("nowhere", {11}, true)};
}

constexpr ChunkOptions kFp64{
    .working = at::kDouble, .master = at::kDouble, .gradient = at::kDouble};

void backward_of_sum(const nn::ParameterHandle& parameter, double factor) {
  torch::autograd::backward({(parameter.use() * factor).sum()}, {});
}

// As torch.optim: what nobody used keeps its value and its moments; what one rank used counts, with
// zeros from the others.
TEST(ChunkEngine, UnusedParametersStayUntouched) {
  const auto optimizer = optim::make_optimizer({});
  for (int zero : {0, 1}) {
    test::run_ranks(3, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = 3, .zero = zero});
      nn::ParameterList parameters = make_parameters();
      parameters[1]->trainable = false;
      ChunkEngine engine(parameters, context, *optimizer, kFp64);
      engine.initialise(1);
      std::vector<at::Tensor> before;
      for (const auto& parameter : parameters) before.push_back(parameter->tensor.detach().clone());

      engine.begin_step();
      engine.begin_micro_batch(true);
      backward_of_sum(parameters[0], 1.0);
      if (world.rank() == 1) backward_of_sum(parameters[2], 2.0);
      engine.end_micro_batch();
      engine.finish_reduction();
      const std::vector<double> used = engine.used();
      EXPECT_EQ(used, (std::vector<double>{1, 0, world.rank() == 1 ? 1.0 : 0.0, 0}));
      engine.update({.learning_rate = 0.1, .weight_decay = 0.1}, {true, false, true, false});
      engine.synchronize();

      EXPECT_FALSE(at::equal(parameters[0]->tensor, before[0]));
      EXPECT_TRUE(at::equal(parameters[1]->tensor, before[1]));
      EXPECT_FALSE(at::equal(parameters[2]->tensor, before[2]));
      EXPECT_TRUE(at::equal(parameters[3]->tensor, before[3]));
      EXPECT_EQ(engine.update_counts(), (std::vector<int64_t>{1, 0, 1, 0}));
    });
  }
}

TEST(ChunkEngine, GradientsAreSummedOverRanksAndMicroBatches) {
  const auto optimizer = optim::make_optimizer({});
  test::run_ranks(2, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 2, .zero = 0});
    nn::ParameterList parameters = make_parameters();
    ChunkEngine engine(parameters, context, *optimizer, kFp64);
    engine.initialise(1);
    engine.begin_step();
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      engine.begin_micro_batch(micro_batch == 2);
      // Two uses: autograd adds them before the engine sees them.
      torch::autograd::backward(
          {parameters[0].use().sum() + (parameters[0].use() * (10.0 * world.rank())).sum()}, {});
      engine.end_micro_batch();
    }
    engine.finish_reduction();
    EXPECT_TRUE(
        at::equal(engine.gradient(*parameters[0]), at::full({5, 7}, 3.0 * (1 + 11), at::kDouble)));
    // Each element is counted by one rank only.
    at::Tensor squares = at::full({1}, engine.squared_gradient_norm(), at::kDouble);
    comm::all_reduce(squares, context.data_group(), comm::Reason::control);
    EXPECT_DOUBLE_EQ(squares.item<double>(), 35 * 36.0 * 36.0);
  });
}

TEST(ChunkEngine, InitialWeightsAreTheSameAtEveryRankCount) {
  const auto optimizer = optim::make_optimizer({});
  const auto weights_at = [&](int ranks) {
    std::vector<at::Tensor> weights;
    test::run_ranks(ranks, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = ranks, .zero = 1});
      nn::ParameterList parameters = make_parameters();
      ChunkEngine engine(parameters, context, *optimizer,
                         {.working = at::kBFloat16, .master = at::kFloat, .gradient = at::kFloat});
      engine.initialise(9);
      if (world.rank() != ranks - 1) return;
      for (const auto& parameter : parameters)
        weights.push_back(parameter->tensor.detach().clone());
    });
    return weights;
  };
  const std::vector<at::Tensor> serial = weights_at(1);
  for (int ranks : {2, 3, 5}) {
    const std::vector<at::Tensor> parallel = weights_at(ranks);
    for (size_t i = 0; i < serial.size(); ++i) EXPECT_TRUE(at::equal(parallel[i], serial[i]));
  }
}

TEST(ChunkEngine, NamesTheFirstNonFiniteGradient) {
  const auto optimizer = optim::make_optimizer({});
  const auto world = comm::single_world();
  const ParallelContext context(*world, Strategy{});
  nn::ParameterList parameters = make_parameters();
  ChunkEngine engine(parameters, context, *optimizer, kFp64);
  engine.initialise(1);
  engine.begin_step();
  engine.begin_micro_batch(true);
  backward_of_sum(parameters[0], 1.0);
  backward_of_sum(parameters[2], std::numeric_limits<double>::infinity());
  engine.end_micro_batch();
  engine.finish_reduction();
  EXPECT_FALSE(std::isfinite(engine.squared_gradient_norm()));
  EXPECT_EQ(engine.first_non_finite_gradient(), "on_one_rank");
}

TEST(ChunkEngine, StateBytesAreThoseOfTheStage) {
  const auto optimizer = optim::make_optimizer({});
  test::run_ranks(4, [&](comm::World& world) {
    for (int zero : {0, 1}) {
      const ParallelContext context(world, Strategy{.dp = 4, .zero = zero});
      const auto parameter =
          std::make_shared<nn::Parameter>(nn::Parameter{.name = "weight", .shape = {64, 64}});
      ChunkEngine engine(
          {nn::ParameterHandle(parameter)}, context, *optimizer,
          {.working = at::kBFloat16, .master = at::kFloat, .gradient = at::kBFloat16});
      const ChunkEngine::StateBytes bytes = engine.state_bytes();
      EXPECT_EQ(bytes.parameters, 2 * 4096);
      EXPECT_EQ(bytes.gradients, 2 * 4096);
      EXPECT_EQ(bytes.optimizer, 12 * 4096 / (zero == 1 ? 4 : 1));
    }
  });
}

}  // namespace
}  // namespace colossal::memory
