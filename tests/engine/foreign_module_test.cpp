// A user's own torch::nn::Module through the Booster: same numbers at every layout.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <mutex>

#include "colossal/engine/booster.h"
#include "tests/support/run_ranks.h"

namespace colossal {
namespace {

struct Perceptron : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr}, frozen{nullptr}, unused{nullptr};
  Perceptron() {
    up = register_module("up", torch::nn::Linear(5, 11));
    down = register_module("down", torch::nn::Linear(11, 3));
    frozen = register_module("frozen", torch::nn::Linear(5, 5));
    unused = register_module("unused", torch::nn::Linear(2, 2));
    for (at::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    at::NoGradGuard no_grad;
    double seed = 1;
    for (at::Tensor& parameter : parameters()) {
      parameter.copy_(at::arange(parameter.numel()).view_as(parameter).mul(0.7 * seed++).sin());
    }
  }
  at::Tensor forward(const at::Tensor& x) { return down(at::tanh(up(frozen(x)))); }
};

data::Batch batch_of(int64_t step, int64_t begin, int64_t count) {
  const at::Tensor i =
      at::arange(begin, begin + count, at::kFloat).add(100.0 * static_cast<double>(step));
  const at::Tensor x = at::outer(i, at::arange(1, 6, at::kFloat)).mul(0.37).sin();
  data::Batch batch{.sample_ids = std::vector<int64_t>(count), .units = count};
  batch.set("x", x);
  batch.set("label", i.to(at::kLong).remainder(3));
  return batch;
}

void collect(std::map<std::string, at::Tensor>& weights, const memory::OwnedShard& piece) {
  at::Tensor& whole = weights[piece.parameter->name];
  if (!whole.defined()) whole = at::zeros(piece.parameter->shape);
  whole.view(-1).narrow(0, piece.elements.begin, piece.elements.size()).copy_(piece.working());
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> weights;
};

Outcome train(int ranks, int zero, int64_t micro_batches) {
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(ranks, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = ranks, .zero = zero});
    Perceptron module;
    EngineConfig config{.total_steps = 10, .global_batch = 12, .chunk_bytes = 256};
    config.optimizer.learning_rate = 0.01;
    const auto engine = Booster(context).boost(
        module,
        [&](const data::Batch& batch, const nn::StepContext&) {
          const at::Tensor labels = batch.at("label");
          return LossSum{
              at::cross_entropy_loss(module.forward(batch.at("x")), labels, {}, at::Reduction::Sum),
              labels.numel()};
        },
        config);
    const int64_t share = 12 / ranks;
    for (int64_t step = 0; step < 10; ++step) {
      std::vector<data::Batch> batches;
      for (int64_t part = 0; part < micro_batches; ++part) {
        const int64_t rows = share / micro_batches;
        batches.push_back(batch_of(step, world.rank() * share + part * rows, rows));
      }
      const StepResult result = engine->step(batches);
      if (world.rank() == 0) outcome.losses.push_back(result.loss);
    }
    engine->chunks().synchronize();
    const std::lock_guard lock(mutex);
    engine->chunks().for_each_checkpoint_shard(
        [&](const memory::OwnedShard& piece) { collect(outcome.weights, piece); });
  });
  return outcome;
}

TEST(ForeignModule, SameNumbersAtEveryLayout) {
  const Outcome serial = train(1, 0, 1);
  EXPECT_LT(serial.losses.back(), serial.losses.front());
  const Perceptron untouched;
  for (const auto& item : untouched.named_parameters()) {
    const bool still = item.key().starts_with("frozen") || item.key().starts_with("unused");
    EXPECT_EQ(at::equal(serial.weights.at(item.key()), item.value()), still) << item.key();
  }
  for (const auto& [ranks, zero, micro_batches] :
       std::vector<std::tuple<int, int, int64_t>>{{1, 1, 3},
                                                  {2, 0, 1},
                                                  {2, 1, 2},
                                                  {3, 1, 1},
                                                  {4, 0, 3},
                                                  {2, 2, 3},
                                                  {3, 2, 1},
                                                  {1, 3, 1},
                                                  {2, 3, 3},
                                                  {3, 3, 1},
                                                  {4, 3, 3}}) {
    TRACED_CASE(fmt::format("{} ranks, stage {}, {} micro-batches", ranks, zero, micro_batches));
    const Outcome parallel = train(ranks, zero, micro_batches);
    for (size_t step = 0; step < serial.losses.size(); ++step) {
      EXPECT_NEAR(parallel.losses[step], serial.losses[step], 1e-4 * serial.losses[step]);
    }
    for (const auto& [name, weight] : serial.weights) {
      EXPECT_LE((parallel.weights.at(name) - weight).norm().item<double>(),
                1e-4 * (weight.norm().item<double>() + 10 * 0.01 * std::sqrt(weight.numel())))
          << name;
    }
  }
}

}  // namespace
}  // namespace colossal
