// The loss of a text over several ranks is that of one rank.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "colossal/base/error.h"
#include "colossal/serve/evaluate.h"
#include "colossal/serve/inference_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal::serve {
namespace {

using test::for_model;
using test::tensor_strategy;

struct NamedStrategy {
  std::string name;
  Strategy strategy;
};

std::vector<NamedStrategy> strategies() {
  Strategy all{.pp = 2, .dp = 2, .sp = 1, .tp = 2};
  return {{"dp 2", {.dp = 2}},
          {"dp 3, zero 3", {.dp = 3, .zero = 3}},
          {"sp 2, ring", {.sp = 2}},
          {"sp 3, ulysses", {.sp = 3, .sequence_mode = SequenceMode::ulysses}},
          {"sp 4, dp 2, zero 3", {.dp = 2, .sp = 4, .zero = 3}},
          {"tp 2", {.tp = 2}},
          {"2d", tensor_strategy(TensorMode::two_d, 4)},
          {"2.5d, sp 1", tensor_strategy(TensorMode::two_and_half_d, 8, 2)},
          {"3d", tensor_strategy(TensorMode::three_d, 8)},
          {"pp 3", {.pp = 3}},
          {"pp 2, sp 2, ring", {.pp = 2, .sp = 2}},
          {"pp 2, dp 2, tp 2", all},
          {"pp 2, dp 2, tp 2, zero 3", {.pp = 2, .dp = 2, .tp = 2, .zero = 3}}};
}

std::vector<NamedStrategy> strategies_of_experts() {
  return {{"ep 2", {.dp = 2, .ep = 2}},
          {"ep 3 of dp 3, zero 3", {.dp = 3, .ep = 3, .zero = 3}},
          {"ep 4 of sp 2 x tp 2", {.sp = 2, .tp = 2, .ep = 4}},
          {"pp 2, ep 2", {.pp = 2, .dp = 2, .ep = 2}}};
}

class ShardedEvaluate : public testing::Test {
 protected:
  ShardedEvaluate() {
    at::set_num_threads(1);  // more threads only slow down such small tensors
    for (size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<int32_t>((i * i + 3 * i) % 50);
    }
  }

  Evaluation alone(const models::ModelSpecification& specification,
                   const InferenceOptions& options = {.type = at::kDouble}) const {
    const InferenceModel model(specification, options);
    return evaluate(*model, data::Corpus::from_tokens(tokens_), evaluate_);
  }

  // Returns the evaluation, which must be the same on all ranks.
  Evaluation over_ranks(const models::ModelSpecification& specification, const Strategy& strategy,
                        InferenceOptions options = {.type = at::kDouble}) const {
    options.strategy = for_model(strategy, specification.facts);
    std::mutex mutex;
    std::set<std::pair<double, int64_t>> found;
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification, options, world);
      EvaluateOptions how = evaluate_;
      how.ranks = model.ranks();
      const Evaluation here = evaluate(*model, data::Corpus::from_tokens(tokens_), how);
      const std::lock_guard lock(mutex);
      found.emplace(here.loss_sum, here.tokens);
    });
    EXPECT_EQ(found.size(), 1);
    return {.loss_sum = found.begin()->first, .tokens = found.begin()->second};
  }

  void expect_same(const models::ModelSpecification& specification,
                   const std::vector<NamedStrategy>& all) const {
    const Evaluation expected = alone(specification);
    for (const NamedStrategy& layout : all) {
      TRACED_CASE(layout.name + " " + specification.facts.family);
      const Evaluation found = over_ranks(specification, layout.strategy);
      EXPECT_EQ(found.tokens, expected.tokens);
      EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-11 * expected.loss_sum);
    }
  }

  // The rows cannot be divided evenly among ranks. The last row has 2 tokens, fewer than there are
  // ranks along sp.
  std::vector<int32_t> tokens_ = std::vector<int32_t>(7 * 13 + 2 + 1);
  EvaluateOptions evaluate_{.sequence_length = 13, .batch = 2};
  const test::TemporaryDirectory folder_;
};

TEST_F(ShardedEvaluate, IsTheLossOfOneRank) {
  for (models::ModelSpecification specification :
       {test::uneven_gpt2(), test::grouped_llama(true), test::latent_deepseek()}) {
    test::write_random_weights(specification, folder_.path());
    expect_same(specification, strategies());
  }
}

TEST_F(ShardedEvaluate, ExpertsMayBeSharedOut) {
  models::ModelSpecification specification = test::gpt_oss_of_few_experts();
  test::write_random_weights(specification, folder_.path());
  expect_same(specification, strategies_of_experts());
}

TEST_F(ShardedEvaluate, WeightsMayRestElsewhereOrInFewBits) {
  models::ModelSpecification specification = test::grouped_llama(false);
  test::write_random_weights(specification, folder_.path());
  InferenceOptions options{.type = at::kDouble};
  options.chunk_bytes = 4096;
  options.window_bytes = 8192;
  options.tiers = {.parameters = {.host = 0.4, .nvme = 0.6}, .nvme_path = folder_.path()};
  const double expected = alone(specification).loss_sum;
  for (const Strategy& strategy :
       std::vector<Strategy>{{.dp = 2}, {.pp = 2, .sp = 2}, {.dp = 2, .tp = 2, .zero = 3}}) {
    EXPECT_NEAR(over_ranks(specification, strategy, options).loss_sum, expected, 1e-11 * expected);
  }
  const InferenceOptions rounded{.type = at::kDouble, .quantization = ops::Quantization{}};
  const double of_codes = alone(specification, rounded).loss_sum;
  EXPECT_NE(of_codes, expected);
  for (const Strategy& strategy :
       std::vector<Strategy>{{.pp = 2, .dp = 2}, {.sp = 2, .tp = 2, .tp_sequence = false}}) {
    EXPECT_NEAR(over_ranks(specification, strategy, rounded).loss_sum, of_codes, 1e-11 * of_codes);
  }
  try {
    over_ranks(specification, {.dp = 2, .zero = 3}, rounded);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("parallel.zero = 3"));
  }
}

// 5 passes: 7 rows of 13 tokens, two rows per pass, and the last 2 tokens. Rank 0 is the first
// stage.
TEST_F(ShardedEvaluate, SendsWhatTheLawsSay) {
  models::ModelSpecification specification = test::uneven_gpt2();
  test::write_random_weights(specification, folder_.path());
  InferenceOptions options{.type = at::kDouble};
  options.strategy = for_model({.pp = 2}, specification.facts);
  std::map<comm::Ledger::Key, comm::Traffic> sent;
  test::run_ranks(2, [&](comm::World& world) {
    at::set_num_threads(1);
    const InferenceModel model(specification, options, world);
    world.ledger().reset();
    EvaluateOptions how = evaluate_;
    how.ranks = model.ranks();
    evaluate(*model, data::Corpus::from_tokens(tokens_), how);
    if (world.rank() == 0) sent = world.ledger().entries();
  });
  const int64_t hidden = 36, tokens = 7 * 13 + 2;
  EXPECT_EQ((sent[{"pp", comm::Reason::stage}].law_bytes), 5 * 32 + 8 * tokens * hidden);
  // In an all-reduce of one number over two ranks, each sends it once. All passes are in one round,
  // which may have 8.
  EXPECT_EQ((sent[{"pp", comm::Reason::control}].law_bytes), 8);
}

}  // namespace
}  // namespace colossal::serve
