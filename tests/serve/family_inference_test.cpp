// Inference of every family over several ranks gives the loss and the tokens of one rank.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "colossal/io/json.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/evaluate.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/inference_model.h"
#include "tests/serve/random_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"

namespace colossal::serve {
namespace {

using test::for_model;
using test::tensor_strategy;

class FamilyInference : public testing::Test {
 protected:
  FamilyInference() {
    at::set_num_threads(1);  // more threads only slow down such small tensors
    for (size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<int32_t>(i * i * 5 % 90);
  }

  // file: families.json, of decoders, or encoders.json.
  void each_family(const char* file,
                   const std::function<void(const models::ModelSpecification&)>& run) {
    const nlohmann::json families =
        io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) / "tests" / "support" / file);
    EXPECT_GE(families.size(), 5);
    for (const auto& [family, fields] : families.items()) {
      SCOPED_TRACE(family);
      models::ModelSpecification specification = family_of(family, fields);
      test::write_random_weights(specification, folder_.path());
      run(specification);
    }
  }

  double loss(const models::ModelSpecification& specification, const Strategy& strategy) const {
    double found = 0;
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification, options_of(specification, strategy), world);
      EvaluateOptions options{.sequence_length = 7, .batch = 2, .ranks = model.ranks()};
      if (!specification.facts.causal) {
        options.masks = {.probability = 0.4, .mask_token = 4, .vocabulary = 97, .never = {}};
      }
      const Evaluation here = evaluate(*model, data::Corpus::from_tokens(text_), options);
      if (world.rank() == 0) found = here.loss_sum;
    });
    return found;
  }

  static std::vector<GeneratedToken> tokens(const models::ModelSpecification& specification,
                                            const Strategy& strategy) {
    std::vector<GeneratedToken> found;
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification, options_of(specification, strategy), world);
      if (world.rank() != 0) return follow(*model, specification.facts, *model.ranks());
      Engine engine(*model, specification.facts, {.type = at::kDouble}, model.ranks());
      Request request = greedy(prompt_of(7, 3, 90), 6);
      request.logprobs = 0;
      request.on_token = [&](const GeneratedToken& token) {
        found.push_back(token);
        return true;
      };
      engine.submit(request);
      engine.drain();
    });
    return found;
  }

  static InferenceOptions options_of(const models::ModelSpecification& specification,
                                     const Strategy& strategy) {
    return {.type = at::kDouble, .strategy = for_model(strategy, specification.facts)};
  }

  std::vector<int32_t> text_ = std::vector<int32_t>(3 * 7 + 2);
  const test::TemporaryDirectory folder_;
};

TEST_F(FamilyInference, EvaluatesOverRanks) {
  const auto run = [&](const models::ModelSpecification& specification) {
    const double expected = loss(specification, {});
    std::vector<Strategy> strategies{{.dp = 2, .zero = 3},
                                     {.sp = 2},
                                     {.tp = 3},
                                     {.pp = 2, .sp = 2, .sequence_mode = SequenceMode::ulysses},
                                     tensor_strategy(TensorMode::two_d, 4)};
    if (specification.facts.experts > 0) strategies.push_back({.dp = 2, .ep = 2});
    for (size_t i = 0; i < strategies.size(); ++i) {
      EXPECT_NEAR(loss(specification, strategies[i]), expected, 1e-11 * expected) << i;
    }
  };
  each_family("families.json", run);
  each_family("encoders.json", run);
}

TEST_F(FamilyInference, GeneratesOverRanks) {
  each_family("families.json", [&](const models::ModelSpecification& specification) {
    const std::vector<GeneratedToken> expected = tokens(specification, {});
    EXPECT_EQ(expected.size(), 6);
    for (const Strategy& strategy :
         {tensor_strategy(TensorMode::one_d, 2), tensor_strategy(TensorMode::two_d, 4),
          tensor_strategy(TensorMode::one_d, 1, 1, 2)}) {
      const std::vector<GeneratedToken> found = tokens(specification, strategy);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].token, expected[i].token);
        EXPECT_NEAR(found[i].logprob, expected[i].logprob, 1e-10);
      }
    }
  });
}

}  // namespace
}  // namespace colossal::serve
