// A user's own loop over parameters that a ModuleEngine has taken over: the same weights as
// LibTorch's optimizer gives with the mean of the replicas' gradients.
#include "colossal/engine/module_engine.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <map>
#include <mutex>

#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal {
namespace {

constexpr int kSteps = 4;
constexpr double kRate = 0.02, kClip = 0.3;

// "tied" uses the weight of "up" again.
struct Net : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr}, unused{nullptr}, frozen{nullptr};
  Net() {
    up = register_module("up", torch::nn::Linear(5, 11));
    down = register_module("down", torch::nn::Linear(11, 5));
    unused = register_module("unused", torch::nn::Linear(2, 2));
    frozen = register_module("frozen", torch::nn::Linear(5, 5));
    to(at::kDouble);
    for (at::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    const at::NoGradGuard no_grad;
    double seed = 1;
    for (at::Tensor& parameter : parameters()) {
      parameter.copy_(at::arange(parameter.numel()).view_as(parameter).mul(0.7 * seed++).sin());
    }
  }

  // engine: null without one.
  at::Tensor forward(const at::Tensor& x, ModuleEngine* engine) {
    const auto run = [&](torch::nn::Linear& layer, const at::Tensor& input) {
      if (!engine) return layer(input);
      for (const at::Tensor& weight : layer->parameters()) engine->before_use(weight);
      const at::Tensor output = layer(input);
      for (const at::Tensor& weight : layer->parameters()) engine->after_use(weight);
      return output;
    };
    at::Tensor y = at::tanh(run(up, run(frozen, x)));
    y = at::tanh(run(down, y));
    return run(up, y);  // used twice
  }
};

// One is left without rows where `rows` is 0.
at::Tensor loss_of(Net& net, int step, int rank, int part, ModuleEngine* engine = nullptr) {
  const at::Tensor x =
      at::arange(15, at::kDouble).add(100. * step + 17 * rank + 5 * part).sin().view({3, 5});
  return net.forward(x, engine).square().mean();
}

using Weights = std::map<std::string, at::Tensor>;

// With LibTorch alone: each step's loss is the mean over the ranks of the sum over the parts.
Weights expected(int ranks, int parts) {
  Net net;
  torch::optim::AdamW optimizer(net.parameters(),
                                torch::optim::AdamWOptions(kRate).weight_decay(0));
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int rank = 0; rank < ranks; ++rank) {
      for (int part = 0; part < parts; ++part) (loss_of(net, step, rank, part) / ranks).backward();
    }
    torch::nn::utils::clip_grad_norm_(net.parameters(), kClip);
    optimizer.step();
  }
  Weights weights;
  for (const auto& item : net.named_parameters()) weights[item.key()] = item.value().detach();
  return weights;
}

ModuleEngine::Parameters named(const Net& net) {
  ModuleEngine::Parameters all;
  for (const auto& item : net.named_parameters()) {
    all.push_back({.name = item.key(), .tensor = item.value()});
  }
  return all;
}

EngineConfig config_in_fp64() {
  EngineConfig config{
      .precision = {.compute = at::kDouble, .master = at::kDouble, .gradient = at::kDouble},
      .chunk_bytes = 256,
      .window_bytes = 0};
  config.optimizer.weight_decay = 0;
  config.optimizer.betas = {{0.9, 0.999}};  // LibTorch's
  return config;
}

// with_evaluations: one before, between and after the passes of a step.
Weights found(int ranks, int zero, int parts, const EngineConfig& config,
              bool with_evaluations = false, bool all_last = false) {
  Weights weights;
  std::mutex mutex;
  test::run_ranks(ranks, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = ranks, .zero = zero});
    Net net;
    const at::TensorImpl* const before = net.up->weight.unsafeGetTensorImpl();
    ModuleEngine engine(named(net), context, config);
    EXPECT_EQ(net.up->weight.unsafeGetTensorImpl(), before) << "the tensors stay the same objects";
    const auto evaluate = [&] {
      if (!with_evaluations) return;
      const at::NoGradGuard no_grad;
      engine.begin_evaluation();
      loss_of(net, 99, 0, 0, &engine);
      engine.end_evaluation();
    };
    for (int step = 0; step < kSteps; ++step) {
      for (int part = 0; part < parts; ++part) {
        evaluate();
        engine.begin_forward();
        const at::Tensor loss = loss_of(net, step, world.rank(), part, &engine);
        engine.end_forward();
        evaluate();
        engine.begin_backward(/*last=*/all_last || part + 1 == parts);
        loss.backward();
        engine.end_backward();
        EXPECT_FALSE(net.up->weight.grad().defined()) << "the engine has the gradient";
      }
      evaluate();
      const auto result = engine.update({.learning_rate = kRate, .gradient_clip = kClip});
      EXPECT_EQ(result.step, step + 1);
      EXPECT_FALSE(result.skipped);
    }
    engine.chunks().synchronize();
    const std::lock_guard lock(mutex);
    engine.chunks().for_each_checkpoint_shard([&](const memory::OwnedShard& piece) {
      at::Tensor& whole = weights[piece.parameter->name];
      if (!whole.defined()) whole = at::zeros(piece.parameter->shape, at::kDouble);
      whole.view(-1).narrow(0, piece.elements.begin, piece.elements.size()).copy_(piece.working());
    });
  });
  return weights;
}

void expect_equal(const Weights& found, const Weights& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, weight] : wanted) {
    EXPECT_LE((found.at(name) - weight).abs().max().item<double>(), 1e-12) << name;
  }
}

TEST(ModuleEngine, GivesWhatLibTorchGivesAtEveryLayout) {
  for (const auto& [ranks, parts] : {std::pair{1, 1}, {2, 1}, {2, 3}, {3, 2}}) {
    const Weights wanted = expected(ranks, parts);
    for (const int zero : {0, 1, 2, 3}) {
      TRACED_CASE(fmt::format("{} ranks, {} parts, stage {}", ranks, parts, zero));
      expect_equal(found(ranks, zero, parts, config_in_fp64()), wanted);
    }
  }
}

TEST(ModuleEngine, WithTiersAndEvaluations) {
  const test::TemporaryDirectory folder;
  const Weights wanted = expected(2, 2);
  for (const int zero : {0, 3}) {
    for (const bool on_nvme : {false, true}) {
      TRACED_CASE(fmt::format("stage {}, {}", zero, on_nvme ? "nvme" : "host"));
      EngineConfig config = config_in_fp64();
      for (memory::TierShares* const shares :
           {&config.tiers.parameters, &config.tiers.gradients, &config.tiers.optimizer,
            &config.tiers.activations}) {
        (on_nvme ? shares->nvme : shares->host) = 1;
      }
      config.tiers.nvme_path = folder.path().string();
      expect_equal(found(2, zero, 2, config, /*with_evaluations=*/true), wanted);
    }
  }
}

std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

// Another program in each step: layers in another order, and a step whose one backward pass is that
// of two forward passes.
at::Tensor loss_in_order(const std::vector<torch::nn::Linear*>& layers, int rank,
                         ModuleEngine* engine = nullptr) {
  at::Tensor y = at::arange(15, at::kDouble).add(17. * rank).sin().view({3, 5});
  for (torch::nn::Linear* const layer : layers) {
    for (const at::Tensor& weight : (*layer)->parameters()) {
      if (engine) engine->before_use(weight);
    }
    y = at::tanh((*layer)->forward(y));
    for (const at::Tensor& weight : (*layer)->parameters()) {
      if (engine) engine->after_use(weight);
    }
  }
  return y.square().mean();
}

std::vector<std::vector<torch::nn::Linear*>> programs_of(Net& net) {
  return {{&net.frozen, &net.up, &net.down},
          {&net.up, &net.down, &net.frozen, &net.up},
          {&net.frozen, &net.frozen, &net.up},
          {&net.up, &net.down, &net.up, &net.down}};
}

Weights expected_in_any_order(int ranks) {
  Net net;
  torch::optim::AdamW optimizer(net.parameters(),
                                torch::optim::AdamWOptions(kRate).weight_decay(0));
  const auto programs = programs_of(net);
  for (size_t step = 0; step < programs.size(); ++step) {
    optimizer.zero_grad();
    for (int rank = 0; rank < ranks; ++rank) {
      at::Tensor loss = loss_in_order(programs[step], rank);
      if (step % 2 == 1) loss = loss + loss_in_order(programs[0], rank);
      (loss / ranks).backward();
    }
    optimizer.step();
  }
  Weights weights;
  for (const auto& item : net.named_parameters()) weights[item.key()] = item.value().detach();
  return weights;
}

TEST(ModuleEngine, FetchesWeightsOnDemandInAnotherOrder) {
  using Fetching = ModuleEngine::Fetching;
  for (const int ranks : {1, 3}) {
    const Weights wanted = expected_in_any_order(ranks);
    for (const auto& [zero, on_host, fetching] : {std::tuple{3, false, Fetching::ahead},
                                                  {3, false, Fetching::on_demand},
                                                  {3, true, Fetching::ahead},
                                                  {0, true, Fetching::ahead},
                                                  {0, true, Fetching::all}}) {
      for (const int64_t window : {int64_t{0}, int64_t{1} << 20}) {
        TRACED_CASE(fmt::format("{} ranks, stage {}, on host {}, fetching {}, window {}", ranks,
                                zero, on_host, static_cast<int>(fetching), window));
        EngineConfig config = config_in_fp64();
        config.window_bytes = window;
        if (on_host) config.tiers.parameters.host = 1;
        test::run_ranks(ranks, [&](comm::World& world) {
          const ParallelContext context(world, Strategy{.dp = ranks, .zero = zero});
          Net net;
          ModuleEngine engine(named(net), context, config);
          const auto programs = programs_of(net);
          const auto pass = [&](const std::vector<torch::nn::Linear*>& program) {
            engine.begin_forward(fetching);
            const at::Tensor loss = loss_in_order(program, world.rank(), &engine);
            engine.end_forward();
            return loss;
          };
          for (size_t step = 0; step < programs.size(); ++step) {
            at::Tensor loss = pass(programs[step]);
            if (step % 2 == 1) loss = loss + pass(programs[0]);
            engine.begin_backward(/*last=*/true);
            loss.backward();
            engine.end_backward();
            engine.update({.learning_rate = kRate});
          }
          engine.begin_gathering();
          for (const auto& item : net.named_parameters()) {
            const at::Tensor difference = (item.value() - wanted.at(item.key())).abs().max();
            EXPECT_LE(difference.item<double>(), 1e-12) << item.key();
          }
          engine.end_gathering();
        });
      }
    }
  }
}

// As a program does that calls backward() several times and knows of no last one.
TEST(ModuleEngine, EveryBackwardPassMayBeTheLast) {
  const test::TemporaryDirectory folder;
  const Weights wanted = expected(3, 3);
  for (const int zero : {0, 1, 2, 3}) {
    for (const std::string tier : {"device", "host", "nvme"}) {
      TRACED_CASE(fmt::format("stage {}, gradients on {}", zero, tier));
      EngineConfig config = config_in_fp64();
      config.tiers.gradients.host = tier == "host" ? 1 : 0;
      config.tiers.gradients.nvme = tier == "nvme" ? 1 : 0;
      config.tiers.nvme_path = folder.path().string();
      expect_equal(found(3, zero, 3, config, /*with_evaluations=*/false, /*all_last=*/true),
                   wanted);
    }
  }
}

TEST(ModuleEngine, QueriesOfGradientsAreNoBackwardPasses) {
  for (const int zero : {0, 3}) {
    test::run_ranks(2, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = 2, .zero = zero});
      Net net;
      ModuleEngine engine(named(net), context, config_in_fp64());
      const at::Tensor x = at::ones({3, 5}, at::kDouble).requires_grad_();
      engine.begin_forward();
      const at::Tensor loss = net.forward(x, &engine).square().mean();
      engine.end_forward();
      engine.begin_query();
      const at::Tensor gradient =
          torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true).front();
      engine.end_query();
      EXPECT_GT(gradient.abs().sum().item<double>(), 0);
      engine.begin_backward(/*last=*/true);
      loss.backward();
      engine.end_backward();
      EXPECT_TRUE(x.grad().equal(gradient));
      EXPECT_FALSE(engine.update({.learning_rate = kRate}).skipped);
      engine.begin_forward();
      const at::Tensor next = net.forward(x, &engine).square().mean();
      engine.end_forward();
      engine.begin_query();
      torch::autograd::grad({next}, {x});
      engine.end_query();
      EXPECT_TRUE(engine.update({.learning_rate = kRate}).skipped) << "no gradient has come";
    });
  }
}

TEST(ModuleEngine, TellsTheNormBeforeTheUpdate) {
  test::run_ranks(2, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 2, .zero = 2});
    Net net;
    ModuleEngine engine(named(net), context, config_in_fp64());
    for (int step = 0; step < 2; ++step) {
      engine.begin_forward();
      const at::Tensor loss = loss_of(net, step, world.rank(), 0, &engine);
      engine.end_forward();
      engine.begin_backward(/*last=*/true);
      loss.backward();
      engine.end_backward();
      const double norm = engine.gradient_norm();
      EXPECT_GT(norm, 0);
      EXPECT_EQ(engine.gradient_norm(), norm) << "asking changes nothing";
      EXPECT_EQ(engine.update({.learning_rate = kRate, .gradient_clip = kClip}).grad_norm, norm);
    }
  });
}

TEST(ModuleEngine, UpdatesTheWeightsOfLinearLayersByMuon) {
  EngineConfig config = config_in_fp64();
  config.optimizer.name = "muon";
  const auto weights_of = [&](int zero, std::optional<nn::WeightOrder> order) {
    Weights weights;
    std::mutex mutex;
    test::run_ranks(2, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = 2, .zero = zero});
      Net net;
      ModuleEngine::Parameters parameters = named(net);
      for (ForeignParameter& parameter : parameters) {
        if (parameter.name.ends_with("weight")) parameter.product = order;
      }
      ModuleEngine engine(parameters, context, config);
      engine.begin_forward();
      const at::Tensor loss = loss_of(net, 0, world.rank(), 0, &engine);
      engine.end_forward();
      engine.begin_backward(/*last=*/true);
      loss.backward();
      engine.end_backward();
      engine.update({.learning_rate = 0.1});
      engine.begin_gathering();
      const std::lock_guard lock(mutex);
      for (const auto& item : net.named_parameters()) {
        weights[item.key()] = item.value().detach().clone();
      }
      engine.end_gathering();
    });
    return weights;
  };
  const Weights whole = weights_of(0, nn::WeightOrder::out_in);
  expect_equal(weights_of(3, nn::WeightOrder::out_in), whole);
  // Muon's update is orthogonal: all singular values of a change are about equal.
  const Net before;
  const at::Tensor change = whole.at("up.weight") - before.up->weight;
  const at::Tensor values = at::linalg_svdvals(change.detach());
  EXPECT_GT(values.min().item<double>() / values.max().item<double>(), 0.5);
  EXPECT_THAT(error_of([&] { weights_of(0, std::nullopt); }),
              testing::HasSubstr("this model trains no other"));
}

TEST(ModuleEngine, GathersWholeWeights) {
  test::run_ranks(3, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 3, .zero = 3});
    Net net;
    const Net untouched;
    ModuleEngine engine(named(net), context, config_in_fp64());
    for (int round = 0; round < 2; ++round) {
      EXPECT_THROW(net.up->weight.sum(), c10::Error) << "it is sharded";
      engine.begin_gathering();
      for (const auto& item : untouched.named_parameters()) {
        EXPECT_TRUE(net.named_parameters()[item.key()].equal(item.value())) << item.key();
      }
      engine.end_gathering();
    }
  });
}

TEST(ModuleEngine, SaysWhatIsOutOfOrder) {
  test::run_ranks(1, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{});
    Net net;
    ModuleEngine engine(named(net), context, config_in_fp64());
    engine.begin_forward();
    EXPECT_EQ(error_of([&] { engine.begin_evaluation(); }),
              "an evaluation begins before a forward pass has ended");
    EXPECT_EQ(error_of([&] { engine.end_backward(); }),
              "a backward pass ends, but a forward pass runs");
    EXPECT_EQ(error_of([&] { engine.update({}); }), "an update while a forward pass runs");
    const at::Tensor loss = loss_of(net, 0, 0, 0, &engine);
    engine.end_forward();
    engine.begin_backward(/*last=*/false);
    loss.backward();
    engine.end_backward();
    EXPECT_THAT(error_of([&] { engine.update({}); }),
                testing::HasSubstr("run the last one outside of no_sync"));
  });
}

TEST(ModuleEngine, AnUpdateWithoutGradientsChangesNothing) {
  test::run_ranks(2, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 2, .zero = 1});
    Net net;
    ModuleEngine engine(named(net), context, config_in_fp64());
    const at::Tensor before = net.up->weight.detach().clone();
    EXPECT_TRUE(engine.update({.learning_rate = 1}).skipped);
    EXPECT_TRUE(net.up->weight.equal(before));
  });
}

TEST(ModuleEngine, NamesAGradientThatIsNotFinite) {
  test::run_ranks(2, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 2});
    Net net;
    ModuleEngine engine(named(net), context, config_in_fp64());
    engine.begin_forward();
    const at::Tensor loss = loss_of(net, 0, 0, 0, &engine) * (world.rank() == 1 ? NAN : 1);
    engine.end_forward();
    engine.begin_backward(/*last=*/true);
    loss.backward();
    engine.end_backward();
    try {
      engine.update({.learning_rate = 1});
      ADD_FAILURE();
    } catch (const NonFiniteError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("the gradient of up.weight is not finite"));
    }
  });
}

}  // namespace
}  // namespace colossal
