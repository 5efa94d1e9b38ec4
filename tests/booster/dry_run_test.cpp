// A dry run is the program itself on meta tensors: it books the bytes that the real one sends.
#include <gtest/gtest.h>

#include "colossal/models/gpt2/model.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/meta_kernels.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

using Traffic = std::map<comm::Ledger::Key, int64_t>;

Traffic dry_traffic(const TinyTraining& training, int rank, int ranks) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(rank, ranks);
  const ParallelContext context(*world, Strategy{.dp = ranks, .zero = training.zero}, at::kMeta);
  nn::DenseBuilder build;
  models::gpt2::Model model(build, training.model);
  EngineConfig config{.total_steps = training.steps, .global_batch = training.global_batch};
  const at::ScalarType master = training.compute == at::kDouble ? at::kDouble : at::kFloat;
  config.precision = {training.compute, master, training.gradient};
  Engine engine(
      build.parameters(),
      [&](const data::Batch& batch, const nn::StepContext& step) {
        return LossSum{model.loss_sum(batch.inputs, batch.labels, step), batch.labels.numel()};
      },
      context, config);
  const int64_t share = training.global_batch / ranks;
  for (int64_t step = 0; step < training.steps; ++step) {
    engine.step({tiny_batch(training, step, rank * share, share)});
  }
  engine.chunks().synchronize();
  Traffic traffic;
  for (const auto& [key, entry] : world->ledger().entries()) traffic[key] = entry.law_bytes;
  return traffic;
}

TEST(DryRun, BooksTheBytesOfTheRealRun) {
  for (int ranks : {1, 2, 3, 4}) {
    for (int zero : {0, 1}) {
      for (double dropout : {0.0, 0.1}) {
        TinyTraining training;
        training.model = tiny_config(dropout);
        training.zero = zero;
        training.steps = 2;
        const TinyResult real = train_tiny(training, ranks);
        for (int rank = 0; rank < ranks; ++rank) {
          Traffic expected;
          for (const auto& [key, entry] : real.traffic[rank]) expected[key] = entry.law_bytes;
          EXPECT_EQ(dry_traffic(training, rank, ranks), expected)
              << "rank " << rank << " of " << ranks << ", stage " << zero;
        }
      }
    }
  }
}

// 124 million parameters at 1,024 ranks, in the memory of a few tensors.
TEST(DryRun, AnyRankOfAThousand) {
  TinyTraining training;
  training.model = models::gpt2::Config{};
  training.zero = 1;
  training.steps = 1;
  training.global_batch = 1024;
  training.compute = training.gradient = at::kBFloat16;
  int64_t gradients = 0;
  for (const auto& [key, bytes] : dry_traffic(training, 1023, 1024)) {
    if (key.reason == comm::Reason::gradient) gradients += bytes;
  }
  const int64_t model = 2 * models::gpt2::facts(training.model).parameters;
  EXPECT_NEAR(static_cast<double>(gradients), static_cast<double>(model) * 1023 / 1024,
              0.001 * model);
}

}  // namespace
}  // namespace colossal::test
