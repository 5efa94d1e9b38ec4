// A user's own modules as the stages of a pipeline; and what ranks say of a stage that is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <mutex>
#include <thread>

#include "colossal/engine/booster.h"
#include "colossal/parallel/pipeline/schedules.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::module_pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kParts = 5, kWidth = 7, kGlobalBatch = 12;

struct Layer : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  Layer(int64_t inputs, int64_t outputs, double seed) {
    linear = register_module("linear", torch::nn::Linear(inputs, outputs));
    linear->to(at::kDouble);
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) {
      parameter.copy_(at::arange(parameter.numel()).view_as(parameter).mul(0.7 * seed++).sin());
    }
  }
  at::Tensor forward(const at::Tensor& x) { return at::tanh(linear(x)); }
};

// What parts pass on: activations, and the labels as they came.
ModulePart middle_part(int64_t index) {
  auto layer = std::make_shared<Layer>(index == 0 ? 5 : kWidth, kWidth, index + 1.0);
  return {.module = layer,
          .run =
              [=](const StageState& state, const data::Batch& batch, const nn::StepContext&) {
                const at::Tensor x = layer->forward(index == 0 ? batch.at("x") : state[0]);
                return StageResult{{x, index == 0 ? batch.at("label") : state[1]}, {}};
              },
          .passes_on =
              [](const data::Batch& batch) {
                const int64_t rows = batch.rows();
                return StageState{
                    at::empty({rows, kWidth}, at::TensorOptions(at::kDouble).device(at::kMeta)),
                    at::empty({rows}, at::TensorOptions(at::kLong).device(at::kMeta))};
              }};
}

ModulePart last_part() {
  auto layer = std::make_shared<Layer>(kWidth, 3, 9.0);
  return {.module = layer,
          .run =
              [=](const StageState& state, const data::Batch&, const nn::StepContext&) {
                const at::Tensor labels = state[1];
                const at::Tensor sum = at::cross_entropy_loss(layer->forward(state[0]), labels, {},
                                                              at::Reduction::Sum);
                return StageResult{{}, {sum, labels.numel()}};
              },
          .passes_on = {}};
}

std::vector<ModulePart> make_parts() {
  std::vector<ModulePart> parts;
  for (int64_t index = 0; index + 1 < kParts; ++index) parts.push_back(middle_part(index));
  parts.push_back(last_part());
  return parts;
}

data::Batch batch_of(int64_t step, int64_t begin, int64_t count) {
  const at::Tensor i =
      at::arange(begin, begin + count, at::kDouble).add(100.0 * static_cast<double>(step));
  const at::Tensor x = at::outer(i, at::arange(1, 6, at::kDouble)).mul(0.37).sin();
  data::Batch batch{.sample_ids = std::vector<int64_t>(count), .units = count};
  batch.set("x", x);
  batch.set("label", i.to(at::kLong).remainder(3));
  return batch;
}

// A replica's micro-batches of a step; the last one is short where rows do not divide.
std::vector<data::Batch> batches_of(const ParallelContext& context, int64_t step, int64_t rows) {
  const int64_t share = kGlobalBatch / context.strategy().dp;
  const int64_t begin = share * context.coordinate(Axis::dp);
  std::vector<data::Batch> batches;
  for (int64_t done = 0; done < share; done += rows) {
    batches.push_back(batch_of(step, begin + done, std::min(rows, share - done)));
  }
  return batches;
}

EngineConfig config_in_fp64() {
  EngineConfig config{.total_steps = 4, .global_batch = kGlobalBatch, .chunk_bytes = 256};
  config.precision = {.compute = at::kDouble, .master = at::kDouble, .gradient = at::kDouble};
  config.optimizer.learning_rate = 0.01;
  return config;
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> weights;
};

Outcome train(const Strategy& strategy, int64_t rows) {
  Outcome outcome;
  std::mutex mutex;
  run_ranks(strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, strategy);
    const auto engine = Booster(context).boost(make_parts(), config_in_fp64());
    for (int64_t step = 0; step < 4; ++step) {
      const StepResult result = engine->step(batches_of(context, step, rows));
      if (world.rank() == 0) outcome.losses.push_back(result.loss);
    }
    engine->chunks().synchronize();
    const std::lock_guard lock(mutex);
    engine->chunks().for_each_checkpoint_shard([&](const memory::OwnedShard& piece) {
      at::Tensor& whole = outcome.weights[piece.parameter->name];
      if (!whole.defined()) whole = at::zeros(piece.parameter->shape, at::kDouble);
      whole.view(-1).narrow(0, piece.elements.begin, piece.elements.size()).copy_(piece.working());
    });
  });
  return outcome;
}

Strategy pipeline(int pp, const std::string& schedule = "1f1b", int chunks = 1) {
  Strategy strategy{.pp = pp, .pp_chunks = chunks, .pp_schedule = schedule};
  strategy.stage_ranks = parallel::pipeline::make_schedule(schedule, {pp, chunks, 1}).rank_of_stage;
  return strategy;
}

TEST(ModulePipeline, EqualsTheSerialRunAtEveryLayout) {
  const Outcome serial = train({}, kGlobalBatch);
  EXPECT_LT(serial.losses.back(), serial.losses.front());
  EXPECT_TRUE(serial.weights.contains("4.linear.weight"));
  std::vector<std::pair<Strategy, int64_t>> cases{{pipeline(2), 5},
                                                  {pipeline(3, "gpipe"), 1},
                                                  {pipeline(3, "zb-h1"), 2},
                                                  {pipeline(2, "zb-v", 2), 4},
                                                  {pipeline(2, "interleaved", 2), 3}};
  for (const int zero : {0, 1, 2, 3}) {
    Strategy replicas = pipeline(2);
    replicas.dp = 2;
    replicas.zero = zero;
    replicas.stage_blocks = {1, 4};
    cases.emplace_back(replicas, 4);
  }
  for (const auto& [strategy, rows] : cases) {
    TRACED_CASE(fmt::format("pp {} {}, dp {}, zero {}", strategy.pp, strategy.pp_schedule,
                            strategy.dp, strategy.zero));
    const Outcome parallel = train(strategy, rows);
    for (size_t step = 0; step < serial.losses.size(); ++step) {
      EXPECT_NEAR(parallel.losses[step], serial.losses[step], 1e-9 * serial.losses[step]);
    }
    ASSERT_EQ(parallel.weights.size(), serial.weights.size());
    for (const auto& [name, weight] : serial.weights) {
      EXPECT_LE((parallel.weights.at(name) - weight).norm().item<double>(),
                1e-9 * (weight.norm().item<double>() + 4 * 0.01 * std::sqrt(weight.numel())))
          << name;
    }
  }
}

// The message of the error that boosting a rank's parts, and a step of rank 0, throw there.
std::string refusal(
    const Strategy& strategy,
    const std::function<void(std::vector<ModulePart>& parts)>& change = [](auto&) {}) {
  std::string message;
  run_ranks(strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, strategy);
    std::vector<ModulePart> parts = make_parts();
    change(parts);
    try {
      const auto engine = Booster(context).boost(parts, config_in_fp64());
      if (world.rank() == 0) engine->step(batches_of(context, 0, 4));
    } catch (const ConfigError& error) {
      if (world.rank() == 0) message = error.what();
    }
  });
  return message;
}

TEST(ModulePipeline, RefusesPartsThatMakeNoPipeline) {
  EXPECT_THAT(refusal(pipeline(6)), HasSubstr("6 stages, and the model has 5 parts"));
  Strategy wrong = pipeline(2);
  wrong.stage_blocks = {2, 2};
  EXPECT_THAT(refusal(wrong), HasSubstr("5"));
  EXPECT_THAT(refusal({.tp = 2}), HasSubstr("tp 2"));
  EXPECT_THAT(
      refusal(pipeline(2), [](auto& parts) { parts[3].module = parts[2].module; }),
      HasSubstr("2.linear.weight and 3.linear.weight are one parameter, in stages 0 and 1"));
  EXPECT_THAT(refusal(pipeline(2), [](auto& parts) { parts[2].passes_on = {}; }),
              HasSubstr("part 2 of the model ends a stage"));
  EXPECT_THAT(refusal(pipeline(2),
                      [](auto& parts) {
                        parts[2].passes_on = [](const data::Batch&) { return StageState{}; };
                      }),
              HasSubstr("part 2 of the model passes on Double [4, 7] and Long [4], but its "
                        "passes_on says nothing"));
}

// A stage that fails tells the other ranks, though messages of theirs are still awaited.
TEST(PipelineFailure, AnErrorOfAStageEndsAllAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  std::string message;
  try {
    run_ranks(
        3,
        [&](comm::World& world) {
          const ParallelContext context(world, pipeline(3));
          std::vector<ModulePart> parts = make_parts();
          const auto run = parts[2].run;
          parts[2].run = [run](const StageState& state, const data::Batch& batch,
                               const nn::StepContext& step) -> StageResult {
            run(state, batch, step);
            throw std::runtime_error("the part is broken");
          };
          const auto engine = Booster(context).boost(parts, config_in_fp64());
          engine->step(batches_of(context, 0, 3));
        },
        std::chrono::seconds(60));
  } catch (const std::exception& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("the part is broken"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// What each rank of three stages says when the middle one, at its second micro-batch, does not come
// back in time.
TEST(PipelineFailure, EachStageSaysWhatItWaitedFor) {
  std::mutex mutex;
  std::map<int, std::string> said;
  std::atomic<int> ended = 0;
  const auto hang = [&] {
    while (ended < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  const auto rank = [&](comm::World& world) {
    const ParallelContext context(world, pipeline(3));
    std::vector<ModulePart> parts = make_parts();
    const auto run = parts[2].run;
    int micro_batches = 0;
    parts[2].run = [&, run](const StageState& state, const data::Batch& batch,
                            const nn::StepContext& step) {
      if (++micro_batches == 2) hang();
      return run(state, batch, step);
    };
    const auto engine = Booster(context).boost(parts, config_in_fp64());
    try {
      engine->step(batches_of(context, 0, 3));
    } catch (const CommError& error) {
      const std::lock_guard lock(mutex);
      said[world.rank()] = error.what();
    }
    ++ended;
  };
  run_ranks(3, rank, std::chrono::milliseconds(500));
  EXPECT_THAT(said[0], AllOf(HasSubstr("step 1: backward of micro-batch 0 in stage 0: waits for "
                                       "rank 1 (send of gradients of micro-batch 0 in stage 1)"),
                             HasSubstr("timed out after 500ms: rank 1")));
  EXPECT_THAT(said[2], AllOf(HasSubstr("step 1: forward of micro-batch 1 in stage 2: waits for "
                                       "rank 1 (send of activations of micro-batch 1 in stage 1)"),
                             HasSubstr("timed out after 500ms: rank 0 (global 1)")));
}

}  // namespace
}  // namespace colossal::test::module_pipeline
