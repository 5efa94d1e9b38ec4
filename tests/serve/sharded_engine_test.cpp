// An engine over several ranks: same tokens and logits as on one rank.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>

#include "colossal/base/error.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/engine_core.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/inference_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal::serve {
namespace {

using test::for_model;
using test::gpt_oss_of_few_experts;
using test::grouped_llama;
using test::latent_deepseek;
using test::tensor_strategy;
using test::uneven_gpt2;

struct Layout {
  std::string name;
  Strategy strategy;
};

Strategy pipeline_there_and_back() {
  return {.pp = 2, .pp_chunks = 2, .stage_ranks = {0, 1, 1, 0}, .tp_sequence = false};
}

std::vector<Layout> layouts() {
  return {{"tp 2", tensor_strategy(TensorMode::one_d, 2)},
          {"tp 3", tensor_strategy(TensorMode::one_d, 3)},
          {"tp 4", tensor_strategy(TensorMode::one_d, 4)},
          {"pp 2", tensor_strategy(TensorMode::one_d, 1, 1, 2)},
          {"pp 3", tensor_strategy(TensorMode::one_d, 1, 1, 3)},
          {"pp 2, two stages a rank, there and back", pipeline_there_and_back()},
          {"tp 2, shares of tokens", {.tp = 2}},
          {"pp 2, tp 2", tensor_strategy(TensorMode::one_d, 2, 1, 2)},
          {"2d", tensor_strategy(TensorMode::two_d, 4)},
          {"2.5d", tensor_strategy(TensorMode::two_and_half_d, 8, 2)},
          {"3d", tensor_strategy(TensorMode::three_d, 8)},
          {"2d, pp 2", tensor_strategy(TensorMode::two_d, 4, 1, 2)}};
}

struct Asked {
  std::vector<int32_t> prompt;
  bool sampled = false;
};

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<double> logprobs;
  FinishReason reason = FinishReason::failed;
  std::string error;
};

std::vector<Asked> questions() {
  std::vector<Asked> asked;
  for (int64_t i = 0; i < 7; ++i) {
    std::vector<int32_t> prompt{3, 14, 15, 9, 2, 6, 5, 35, 8, 9, 7, 9, 32, 38, 46, 26, 43};
    for (int64_t more = 0; more < 3 * i; ++more) {
      prompt.push_back(static_cast<int32_t>((i * 7 + more * 11) % 50));
    }
    asked.push_back({prompt, i % 3 == 2});
  }
  return asked;
}

std::vector<Answer> answers_of(Engine& engine, const std::vector<Asked>& asked) {
  std::vector<Answer> answers(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    Request request{.prompt = asked[i].prompt,
                    .sampling = {.temperature = asked[i].sampled ? 1.0 : 0.0, .seed = i},
                    .max_new_tokens = 9,
                    .logprobs = 0};
    request.on_token = [&answer = answers[i]](const GeneratedToken& token) {
      answer.tokens.push_back(token.token);
      answer.logprobs.push_back(token.logprob);
      return true;
    };
    request.on_finish = [&answer = answers[i]](FinishReason reason, const Usage&,
                                               const std::string& error) {
      answer.reason = reason;
      answer.error = error;
    };
    engine.submit(std::move(request));
  }
  engine.drain();
  return answers;
}

void expect_same(const std::vector<Answer>& found, const std::vector<Answer>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << i << ' ' << found[i].error;
    EXPECT_EQ(found[i].reason, FinishReason::length) << found[i].error;
    ASSERT_EQ(found[i].logprobs.size(), expected[i].logprobs.size());
    for (size_t token = 0; token < found[i].logprobs.size(); ++token) {
      EXPECT_NEAR(found[i].logprobs[token], expected[i].logprobs[token], tolerance);
    }
  }
}

class ShardedEngine : public testing::Test {
 protected:
  ShardedEngine() { at::set_num_threads(1); }  // more threads only slow down such small tensors

  static EngineOptions with_type(EngineOptions options, at::ScalarType type) {
    options.type = type;
    return options;
  }

  static std::vector<Answer> alone(const models::ModelSpecification& specification,
                                   const InferenceOptions& options,
                                   const EngineOptions& engine_options = {}) {
    const InferenceModel model(specification, options);
    Engine engine(*model, specification.facts, with_type(engine_options, options.type));
    return answers_of(engine, questions());
  }

  static std::vector<Answer> over_ranks(const models::ModelSpecification& specification,
                                        InferenceOptions options, const Strategy& strategy,
                                        const EngineOptions& engine_options = {},
                                        EngineStatistics* counted = nullptr) {
    options.strategy = for_model(strategy, specification.facts);
    std::vector<Answer> answers;
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification, options, world);
      if (world.rank() != 0) return follow(*model, specification.facts, *model.ranks());
      Engine engine(*model, specification.facts, with_type(engine_options, options.type),
                    model.ranks());
      answers = answers_of(engine, questions());
      if (counted) *counted = engine.statistics();
    });
    return answers;
  }

  // Each model at every `stride`-th layout; the models begin with different ones in turn.
  void expect_tokens_of_one_rank(size_t stride) {
    size_t first = 0;
    for (models::ModelSpecification specification :
         {uneven_gpt2(), grouped_llama(false), grouped_llama(true), latent_deepseek(),
          gpt_oss_of_few_experts()}) {
      test::write_random_weights(specification, folder_.path());
      const InferenceOptions options{.type = at::kDouble};
      const std::vector<Answer> expected = alone(specification, options);
      const std::vector<Layout> all = layouts();
      for (size_t i = first++ % stride; i < all.size(); i += stride) {
        TRACED_CASE(all[i].name + " " + specification.config.dump());
        expect_same(over_ranks(specification, options, all[i].strategy), expected, 1e-11);
      }
    }
  }

  const test::TemporaryDirectory folder_;
};

TEST_F(ShardedEngine, GivesTheTokensOfOneRank) {
  expect_tokens_of_one_rank(/*stride=*/3);
}

using SlowShardedEngine = ShardedEngine;

TEST_F(SlowShardedEngine, GivesTheTokensOfOneRank) {
  expect_tokens_of_one_rank(/*stride=*/1);
}

Strategy with_experts(Strategy strategy, int ep, int expert_tp = 1) {
  strategy.ep = ep;
  strategy.expert_tp = expert_tp;
  return strategy;
}

TEST_F(ShardedEngine, ExpertsMayBeSharedOutAndInFewBits) {
  const Strategy two = tensor_strategy(TensorMode::one_d, 2);
  const Strategy four = tensor_strategy(TensorMode::one_d, 4);
  const Strategy square = tensor_strategy(TensorMode::two_d, 4);
  for (models::ModelSpecification specification :
       {gpt_oss_of_few_experts(), test::qwen_of_few_experts()}) {
    test::write_random_weights(specification, folder_.path());
    std::vector<Strategy> strategies{with_experts(two, 2), with_experts(four, 4),
                                     with_experts(tensor_strategy(TensorMode::one_d, 2, 1, 2), 2)};
    strategies.push_back(with_experts(two, 1, 2));
    strategies.push_back(with_experts(four, 2, 2));
    for (const bool few_bits : {false, true}) {
      InferenceOptions options{.type = at::kDouble};
      if (few_bits) options.quantization = ops::Quantization{};
      const std::vector<Answer> expected = alone(specification, options);
      for (size_t i = 0; i < strategies.size(); ++i) {
        TRACED_CASE(testing::Message()
                    << specification.facts.family << ' ' << i << ' ' << few_bits);
        expect_same(over_ranks(specification, options, strategies[i]), expected, 1e-11);
      }
      if (!few_bits) {
        expect_same(over_ranks(specification, options, with_experts(square, 4)), expected, 1e-11);
      }
    }
  }
}

// Chunks, preemption, prefix cache and batch invariance work as on one rank.
TEST_F(ShardedEngine, DecidesAsOneRankDoes) {
  models::ModelSpecification specification = grouped_llama(false);
  test::write_random_weights(specification, folder_.path());
  const InferenceOptions options{.type = at::kDouble};
  const std::vector<Answer> expected = alone(specification, options);
  const Strategy strategy = tensor_strategy(TensorMode::one_d, 2, 1, 2);
  EngineOptions few_pages{.max_num_seqs = 4, .max_model_len = 47};
  few_pages.cache_bytes = 5 * page_bytes(with_type(few_pages, options.type), specification.facts,
                                         for_model(strategy, specification.facts));
  for (const EngineOptions& engine_options :
       std::vector<EngineOptions>{{.max_batch_tokens = 7},
                                  {.max_num_seqs = 2},
                                  {.prefix_cache = false},
                                  {.max_num_seqs = 2, .batch_invariant = true},
                                  few_pages}) {
    TRACED_CASE(testing::Message()
                << engine_options.max_batch_tokens << ' ' << engine_options.cache_bytes);
    EngineStatistics counted;
    expect_same(over_ranks(specification, options, strategy, engine_options, &counted), expected,
                1e-11);
    EXPECT_EQ(counted.preemptions > 0, engine_options.cache_bytes > 0);
    EXPECT_EQ(counted.prefix_hits > 0, engine_options.prefix_cache);
  }
}

TEST_F(ShardedEngine, PagesAreThoseOfTheHeadsAndLayersHere) {
  const models::ModelFacts facts = grouped_llama(false).facts;
  const auto bytes = [&](const Strategy& strategy) {
    return page_bytes({}, facts, for_model(strategy, facts));
  };
  const int64_t alone = bytes({});
  EXPECT_EQ(bytes(tensor_strategy(TensorMode::one_d, 2)), alone / 2);
  EXPECT_EQ(bytes(tensor_strategy(TensorMode::one_d, 2, 1, 4)), alone / 8);
  EXPECT_EQ(bytes(tensor_strategy(TensorMode::two_d, 4)), alone / 2);
  // Three ranks share two key-value heads: each rank stores both.
  EXPECT_EQ(bytes(tensor_strategy(TensorMode::one_d, 3)), alone);
}

TEST_F(ShardedEngine, WeightsMayRestElsewhereOrInFewBits) {
  const Strategy two = tensor_strategy(TensorMode::one_d, 2);
  const Strategy stages = tensor_strategy(TensorMode::one_d, 1, 1, 2);
  for (models::ModelSpecification specification : {uneven_gpt2(), grouped_llama(true)}) {
    test::write_random_weights(specification, folder_.path());
    InferenceOptions options{.type = at::kDouble};
    const std::vector<Answer> expected = alone(specification, options);
    options.chunk_bytes = 4096;
    options.window_bytes = 8192;
    options.tiers = {.parameters = {.host = 0.4, .nvme = 0.6}, .nvme_path = folder_.path()};
    for (const Strategy& strategy : {two, stages, tensor_strategy(TensorMode::two_d, 4)}) {
      TRACED_CASE(specification.facts.family);
      expect_same(over_ranks(specification, options, strategy), expected, 1e-11);
    }
    const InferenceOptions rounded{.type = at::kDouble, .quantization = ops::Quantization{}};
    const std::vector<Answer> of_codes = alone(specification, rounded);
    EXPECT_NE(of_codes[0].logprobs, expected[0].logprobs);
    for (const Strategy& strategy : {two, stages}) {
      expect_same(over_ranks(specification, rounded, strategy), of_codes, 1e-11);
    }
  }
}

std::string refusal_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(ShardedEngine, RefusesGroupsThatRanksWouldCut) {
  models::ModelSpecification specification = grouped_llama(false);
  test::write_random_weights(specification, folder_.path());
  ops::Quantization how{.type = ops::Quantization::Type::int4, .group = 64};
  const InferenceOptions options{.type = at::kDouble, .quantization = how};
  EXPECT_THAT(refusal_of([&] {
                over_ranks(specification, options, tensor_strategy(TensorMode::one_d, 2));
              }),
              testing::HasSubstr("--quantize-group=64"));
  EXPECT_THAT(refusal_of([&] {
                over_ranks(specification, options, tensor_strategy(TensorMode::two_d, 4));
              }),
              testing::HasSubstr("parallel.tp_mode = \"1d\""));
}

// One request with 17 tokens, then 8 steps of one token: bytes that rank 0 of 2 sends.
TEST_F(ShardedEngine, SendsWhatTheLawsSay) {
  models::ModelSpecification specification = uneven_gpt2();
  test::write_random_weights(specification, folder_.path());
  for (const bool pipeline : {false, true}) {
    InferenceOptions options{.type = at::kDouble};
    options.strategy =
        for_model(tensor_strategy(TensorMode::one_d, pipeline ? 1 : 2, 1, pipeline ? 2 : 1),
                  specification.facts);
    std::map<comm::Ledger::Key, comm::Traffic> first, second;
    test::run_ranks(2, [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification, options, world);
      world.ledger().reset();
      if (world.rank() != 0) {
        follow(*model, specification.facts, *model.ranks());
        second = world.ledger().entries();
        return;
      }
      {
        Engine engine(*model, specification.facts,
                      with_type({.heartbeat = {.timeout = {}}}, at::kDouble), model.ranks());
        answers_of(engine, {questions()[0]});
      }
      first = world.ledger().entries();
    });
    const std::string axis = pipeline ? "pp" : "tp";
    const int64_t hidden = 36, vocabulary = 53, tokens = 17 + 8, steps = 9;
    // The begin and end messages; for each step 10 numbers, 6 for its chunk, its pages, its tokens
    // and one wanted row.
    const int64_t pages = 2 + 8 * 2;  // pages of 16 tokens
    EXPECT_EQ((first[{axis, comm::Reason::control}].law_bytes),
              16 * (2 + steps) + 8 * (5 + steps * (10 + 6 + 1) + pages + tokens));
    if (pipeline) {
      EXPECT_EQ((first[{"pp", comm::Reason::stage}].law_bytes), 32 * steps + 8 * tokens * hidden);
      EXPECT_EQ((second[{"pp.ends", comm::Reason::stage}].law_bytes),
                (32 + 8 * vocabulary) * steps);
    } else {
      // In an all-reduce over two ranks, each rank sends half of the data twice. Rank 0 has 27 of
      // 53 logits.
      EXPECT_EQ((first[{"tp", comm::Reason::tensor}].law_bytes),
                8 * tokens * hidden * (2 * 4 + 1) + 8 * 27 * steps);
    }
  }
}

TEST_F(ShardedEngine, EndsAllRequestsWhereARankIsLost) {
  models::ModelSpecification specification = uneven_gpt2();
  test::write_random_weights(specification, folder_.path());
  InferenceOptions options{.type = at::kDouble};
  options.strategy = tensor_strategy(TensorMode::one_d, 2);
  std::vector<Answer> answers;
  std::atomic<bool> told = false;
  bool refused = false;
  std::chrono::duration<double> taken{};
  EXPECT_THROW(test::run_ranks(2,
                               [&](comm::World& world) {
                                 at::set_num_threads(1);
                                 const InferenceModel model(specification, options, world);
                                 if (world.rank() != 0) {
                                   int passes = 0;
                                   return follow(*model, specification.facts, *model.ranks(),
                                                 [&](int, const auto& run) {
                                                   if (++passes == 4) throw Error("killed");
                                                   run();
                                                 });
                                 }
                                 EngineOptions engine_options = with_type({}, options.type);
                                 engine_options.on_lost = [&](const std::string&) { told = true; };
                                 Engine engine(*model, specification.facts, engine_options,
                                               model.ranks());
                                 const auto start = std::chrono::steady_clock::now();
                                 answers = answers_of(engine, questions());
                                 taken = std::chrono::steady_clock::now() - start;
                                 try {
                                   engine.submit({.prompt = {1}});
                                 } catch (const EngineLost&) {
                                   refused = true;
                                 }
                                 throw CommError("as the engine's rank ends then");
                               }),
               std::runtime_error);
  EXPECT_EQ(answers.size(), 7);
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.reason, FinishReason::failed);
    EXPECT_FALSE(answer.error.empty());
  }
  EXPECT_TRUE(told);
  EXPECT_TRUE(refused);
  EXPECT_LT(taken.count(), 2);
}

}  // namespace
}  // namespace colossal::serve
