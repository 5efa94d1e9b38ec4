// What an engine over several ranks sends, in every tensor mode: the bytes of all ranks together
// are those of the formulas of docs/laws.md, and nothing else is sent.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "colossal/serve/forward_pass.h"
#include "colossal/serve/inference_model.h"
#include "tests/serve/random_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"

namespace colossal::serve {
namespace {

using comm::Reason;
using test::tensor_strategy;

constexpr int64_t kBytes = 8;  // of a number in fp64, and of a number of a message

// What the formulas take of a model: features of a token, and numbers of weights.
struct Sizes {
  int64_t layers, hidden, vocabulary;
  int64_t qkv;               // queries, keys and values of a layer
  int64_t inputs, outputs;   // of a layer's products, a sum
  int64_t weights;           // the same, without biases
  int64_t statistics_calls;  // sums over the features of a token that a norm needs
  bool tied;
};

Sizes gpt2_sizes(int64_t vocabulary) {
  constexpr int64_t kHidden = 36;
  return {.layers = 4,
          .hidden = kHidden,
          .vocabulary = vocabulary,
          .qkv = 3 * kHidden,
          .inputs = 7 * kHidden,
          .outputs = 9 * kHidden,
          .weights = 12 * kHidden * kHidden,
          .statistics_calls = 2,
          .tied = true};
}

// Of grouped_llama(false).
Sizes llama_sizes() {
  constexpr int64_t kHidden = 36, kQueries = 6 * 8, kKeys = 2 * 8, kInner = 96;
  constexpr int64_t kQkv = kQueries + 2 * kKeys;
  return {.layers = 4,
          .hidden = kHidden,
          .vocabulary = 53,
          .qkv = kQkv,
          .inputs = kHidden + kQueries + kHidden + kInner,
          .outputs = kQkv + kHidden + 2 * kInner + kHidden,
          .weights = kHidden * (kQkv + kQueries + 2 * kInner + kInner),
          .statistics_calls = 1,
          .tied = false};
}

// Of all passes of an engine together.
struct Counts {
  int64_t passes = 0, tokens = 0, logits = 0, states = 0;
};

using Bytes = std::map<Reason, int64_t>;

// Tensor parallelism in one dimension over t ranks: two sums of activations a layer and one of
// embeddings, and logits. Final states are on every rank.
int64_t numbers_of_1d(const Sizes& sizes, const Counts& counts, int64_t t) {
  const int64_t all_reduce = 2 * (t - 1) * counts.tokens * sizes.hidden;
  return (2 * sizes.layers + 1) * all_reduce + (t - 1) * counts.logits * sizes.vocabulary;
}

// Of norms, and of what attention reads of all tokens; ranks: those with the same heads.
int64_t numbers_within_grid(const Sizes& sizes, const Counts& counts, int64_t q, int64_t ranks) {
  const int64_t norms = 2 * sizes.layers + 1;
  return norms * sizes.statistics_calls * 2 * (q - 1) * counts.tokens +
         sizes.layers * (ranks - 1) * counts.tokens * sizes.qkv;
}

// q x q x d ranks; 2D: d = 1.
int64_t numbers_of_2d(const Sizes& sizes, const Counts& counts, int64_t q, int64_t d) {
  const int64_t table = sizes.vocabulary * sizes.hidden;
  const int64_t embedding = (q - 1) * counts.tokens * sizes.hidden;
  const int64_t products =
      sizes.layers * (q - 1) * (counts.tokens * sizes.inputs + counts.passes * d * sizes.weights);
  const int64_t features = (q - 1) * counts.tokens * sizes.hidden;  // all of each token
  const int64_t table_here =
      counts.passes * d * ((q - 1) * table + (sizes.tied ? (q - 1) * table / q : 0));
  const int64_t logits = (q * q * d - 1) * counts.logits * sizes.vocabulary;
  const int64_t states =
      counts.states > 0 ? features + q * (q * d - 1) * counts.states * sizes.hidden : 0;
  return embedding + products + numbers_within_grid(sizes, counts, q, q * d) + features +
         table_here + logits + states;
}

// q x q x q ranks. Tied or not, the head's part of the table is where the embedding's is.
int64_t numbers_of_3d(const Sizes& sizes, const Counts& counts, int64_t q) {
  const int64_t table = sizes.vocabulary * sizes.hidden;
  const int64_t embedding = (q * q - 1) * counts.tokens * sizes.hidden;
  const int64_t products =
      sizes.layers * (q - 1) *
      (counts.tokens * (sizes.inputs + sizes.outputs) + counts.passes * sizes.weights);
  // From the mirror rank, off the diagonal, and from the others with the token.
  const int64_t features =
      (q - 1) * counts.tokens * sizes.hidden / q + (q - 1) * counts.tokens * sizes.hidden;
  const int64_t logits = (q * q * q - 1) * counts.logits * sizes.vocabulary;
  const int64_t states =
      counts.states > 0 ? features + q * (q * q - 1) * counts.states * sizes.hidden : 0;
  return embedding + products + numbers_within_grid(sizes, counts, q, q * q) + features +
         counts.passes * (q * q - 1) * table + logits + states;
}

int64_t numbers_of_mode(const Sizes& sizes, const Counts& counts, const Strategy& strategy) {
  const int64_t q = strategy.tensor_side();
  switch (strategy.tensor_mode) {
    case TensorMode::one_d:
      return numbers_of_1d(sizes, counts, strategy.tp);
    case TensorMode::three_d:
      return numbers_of_3d(sizes, counts, q);
    default:
      return numbers_of_2d(sizes, counts, q, strategy.tp_depth);
  }
}

// Of one sequence that one page holds.
Bytes law(const Sizes& sizes, const Counts& counts, const Strategy& strategy) {
  const int64_t others = strategy.world_size() - 1;
  // begin and end; of each pass 10 numbers, 6 of its chunk, its page, tokens and wanted ones.
  const int64_t numbers =
      5 + counts.passes * (10 + 6 + 1) + counts.tokens + counts.logits + counts.states;
  Bytes bytes{{Reason::control, others * (16 * (2 + counts.passes) + kBytes * numbers)},
              {Reason::tensor, kBytes * numbers_of_mode(sizes, counts, strategy)}};
  if (strategy.pp > 1) {
    // Over the border what each rank has of the activations, and from the last stage the logits.
    bytes[Reason::stage] = counts.passes * 32 * strategy.tp +
                           kBytes * counts.tokens * sizes.hidden + counts.passes * 32 +
                           kBytes * counts.logits * sizes.vocabulary;
  }
  return bytes;
}

struct Sent {
  Bytes law, wire;
  EngineStatistics statistics;
};

class ShardedLaws : public testing::Test {
 protected:
  ShardedLaws() { at::set_num_threads(1); }  // such small products only wait for each other

  Sent sent(const models::ModelSpecification& specification, const Strategy& strategy,
            const EngineOptions& options, const Request& request) {
    const InferenceOptions of_model{.type = at::kDouble,
                                    .strategy = test::for_model(strategy, specification.facts)};
    Sent all;
    std::vector<std::shared_ptr<comm::Ledger>> ledgers(strategy.world_size());
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification, of_model, world);
      world.ledger().reset();
      if (world.rank() != 0) {
        follow(*model, specification.facts, *model.ranks());
      } else {
        Engine engine(*model, specification.facts, options, model.ranks());
        engine.submit(request);
        engine.drain();
        all.statistics = engine.statistics();
      }
      ledgers[world.rank()] = world.shared_ledger();
    });
    // Now, because a rank may read, and book, what this rank has sent after this rank has ended.
    for (const auto& ledger : ledgers) {
      for (const auto& [key, traffic] : ledger->entries()) {
        if (traffic.law_bytes > 0) all.law[key.reason] += traffic.law_bytes;
        if (traffic.wire_bytes > 0) all.wire[key.reason] += traffic.wire_bytes;
      }
    }
    return all;
  }

  // 13 tokens, whose number neither side of a grid divides, then 9 steps.
  static Request request(int64_t vocabulary) {
    return {.prompt = prompt_of(13, 1, vocabulary), .max_new_tokens = 10};
  }

  static EngineOptions options() {
    return {.page_size = 64, .heartbeat = {.timeout = {}}, .type = at::kDouble};
  }

  const test::TemporaryDirectory folder_;
};

std::vector<Strategy> tensor_modes() {
  return {tensor_strategy(TensorMode::one_d, 2),
          tensor_strategy(TensorMode::one_d, 3),
          tensor_strategy(TensorMode::two_d, 4),
          tensor_strategy(TensorMode::two_d, 9),
          tensor_strategy(TensorMode::two_and_half_d, 8, 2),
          tensor_strategy(TensorMode::three_d, 8)};
}

std::string describe(const Strategy& strategy) {
  return fmt::format("{} tp {} pp {}", tensor_mode_name(strategy.tensor_mode), strategy.tp,
                     strategy.pp);
}

TEST_F(ShardedLaws, GenerationSendsWhatTheySay) {
  std::vector<Strategy> strategies = tensor_modes();
  strategies.push_back(tensor_strategy(TensorMode::two_d, 4, 1, 2));
  for (const bool llama : {false, true}) {
    models::ModelSpecification specification =
        llama ? test::grouped_llama(false) : test::uneven_gpt2();
    test::write_random_weights(specification, folder_.path());
    const Sizes sizes = llama ? llama_sizes() : gpt2_sizes(53);
    for (const Strategy& strategy : strategies) {
      if (llama && strategy.tensor_side() == 3) continue;  // both of its heads of keys on each rank
      TRACED_CASE(specification.facts.family + " " + describe(strategy));
      const Sent found = sent(specification, strategy, options(), request(53));
      const Counts counts{.passes = 10, .tokens = 13 + 9, .logits = 10};
      EXPECT_EQ(found.statistics.batch_tokens, counts.tokens);
      EXPECT_EQ(found.law, law(sizes, counts, strategy));
      EXPECT_EQ(found.wire, found.law);
    }
  }
}

TEST_F(ShardedLaws, EmbeddingsSendWhatTheySay) {
  models::ModelSpecification specification = test::uneven_gpt2();
  test::write_random_weights(specification, folder_.path());
  for (const Strategy& strategy : tensor_modes()) {
    TRACED_CASE(describe(strategy));
    Request asked = request(53);
    asked.max_new_tokens = 0;
    asked.pooling = Pooling::mean;
    const Sent found = sent(specification, strategy, options(), asked);
    // A pass gives the logits of one token at least.
    const Counts counts{.passes = 1, .tokens = 13, .logits = 1, .states = 13};
    EXPECT_EQ(found.law, law(gpt2_sizes(53), counts, strategy));
    EXPECT_EQ(found.wire, found.law);
  }
}

// The head is on the first rank alone: it sends nothing, but reads the states of all tokens.
TEST_F(ShardedLaws, AHeadThatGuessesSendsWhatTheySay) {
  constexpr int64_t kVocabulary = 5;  // so small that some guesses are right
  const auto of_few_tokens = [&](bool draft_head) {
    return models::resolve_model({.preset = "gpt2-tiny",
                                  .overrides = {{"n_layer", 4},
                                                {"n_embd", 36},
                                                {"n_head", 6},
                                                {"vocab_size", kVocabulary},
                                                {"n_positions", 64}},
                                  .draft_head = draft_head});
  };
  models::ModelSpecification specification = of_few_tokens(false);
  test::write_random_weights(specification, folder_.path());
  const RandomModel head(of_few_tokens(true), at::kDouble);
  EngineOptions guessing = options();
  guessing.speculation = {.kind = Speculation::Kind::head,
                          .drafts = 2,
                          .model = head.model.get(),
                          .facts = head.specification.facts,
                          .type = at::kDouble};
  for (const Strategy& strategy : tensor_modes()) {
    TRACED_CASE(describe(strategy));
    const Sent found = sent(specification, strategy, guessing, request(kVocabulary));
    const EngineStatistics& engine = found.statistics;
    EXPECT_GT(engine.draft_tokens, 5);
    EXPECT_GT(engine.accepted_tokens, 0);
    // Of each pass the logits of the last token before its guesses, and of each guess.
    const Counts counts{.passes = engine.steps,
                        .tokens = engine.batch_tokens,
                        .logits = engine.steps + engine.draft_tokens,
                        .states = engine.batch_tokens};
    EXPECT_EQ(counts.tokens, 13 + counts.passes - 1 + engine.draft_tokens);
    EXPECT_EQ(found.law, law(gpt2_sizes(kVocabulary), counts, strategy));
    EXPECT_EQ(found.wire, found.law);
  }
}

}  // namespace
}  // namespace colossal::serve
