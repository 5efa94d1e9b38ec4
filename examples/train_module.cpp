// A user's own torch::nn::Module over two ranks: data parallelism, ZeRO stage 1, AdamW.
// Ranks are threads here; with comm::connect they are processes on any number of hosts.
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <colossal/comm/world.h>
#include <colossal/engine/booster.h>

#include <cstdio>
#include <thread>

using namespace colossal;

struct Classifier : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr};
  Classifier() {
    up = register_module("up", torch::nn::Linear(2, 64));
    down = register_module("down", torch::nn::Linear(64, 2));
  }
  at::Tensor forward(const at::Tensor& x) { return down(torch::tanh(up(x))); }
};

// Points of the plane, labelled by the side of a spiral on which they lie.
data::Batch points(int64_t step, int64_t begin, int64_t count) {
  const at::Tensor i = torch::arange(begin, begin + count) + 1000 * step;
  const at::Tensor x = torch::stack({torch::sin(i * 12.9898), torch::cos(i * 78.233)}, 1);
  const at::Tensor angle = torch::atan2(x.select(1, 1), x.select(1, 0));
  const at::Tensor labels = (torch::sin(3 * x.norm(2, 1) + angle) > 0).to(torch::kLong);
  data::Batch batch{.sample_ids = std::vector<int64_t>(count, step), .units = count};
  batch.set("points", x);
  batch.set("sides", labels);
  return batch;
}

void train(comm::World& world) {
  const ParallelContext context(world, Strategy{.dp = world.size(), .zero = 1});
  Classifier model;
  const auto loss = [&](const data::Batch& batch, const nn::StepContext&) {
    const at::Tensor& sides = batch.at("sides");
    return LossSum{
        torch::cross_entropy_loss(model.forward(batch.at("points")), sides, {}, at::Reduction::Sum),
        sides.numel()};
  };
  EngineConfig config{.total_steps = 300, .global_batch = 256};
  config.optimizer.learning_rate = 1e-2;
  const auto engine = Booster(context).boost(model, loss, config);
  const int64_t share = config.global_batch / world.size();
  for (int64_t step = 0; step < config.total_steps; ++step) {
    const StepResult result = engine->step({points(step, world.rank() * share, share)});
    if (world.rank() == 0 && result.step % 50 == 0)
      std::printf("step %3ld  loss %.4f\n", result.step, result.loss);
  }
}

int main() {
  auto worlds = comm::local_worlds(2, std::chrono::seconds(60));
  std::vector<std::jthread> ranks;
  for (auto& world : worlds) ranks.emplace_back([&world] { train(*world); });
}
