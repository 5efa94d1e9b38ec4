// Final states in an engine over several ranks: embeddings, and a draft head that reads states.
// Results are those of one rank.
#include <ATen/Parallel.h>

#include "colossal/serve/forward_pass.h"
#include "colossal/serve/inference_model.h"
#include "tests/serve/random_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"

namespace colossal::serve {
namespace {

using test::for_model;

std::vector<Strategy> layouts_of_states() {
  std::vector<Strategy> all = test::tensor_and_pipeline_strategies();
  all.push_back({.tp = 2});  // each rank has a part of the tokens
  return all;
}

class ShardedStates : public testing::Test {
 protected:
  ShardedStates() { at::set_num_threads(1); }  // more threads only slow down such small tensors

  using Use = std::function<void(Engine& engine)>;

  // Calls `use` with an engine of the first rank.
  static void over_ranks(const models::ModelSpecification& specification, const Strategy& strategy,
                         const EngineOptions& options, const Use& use) {
    const InferenceOptions of_model{.type = at::kDouble,
                                    .strategy = for_model(strategy, specification.facts)};
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification, of_model, world);
      if (world.rank() != 0) return follow(*model, specification.facts, *model.ranks());
      Engine engine(*model, specification.facts, options, model.ranks());
      use(engine);
    });
  }

  const test::TemporaryDirectory folder_;
};

TEST_F(ShardedStates, EmbeddingsAreThoseOfOneRank) {
  for (models::ModelSpecification specification :
       {test::uneven_gpt2(), test::grouped_llama(true)}) {
    test::write_random_weights(specification, folder_.path());
    // Prompts in several chunks; steps with more, and with fewer, rows than there are ranks.
    const auto embeddings = [&](const Strategy& strategy) {
      std::vector<std::vector<double>> found(5);
      over_ranks(specification, strategy, {.max_batch_tokens = 13, .type = at::kDouble},
                 [&](Engine& engine) {
                   for (size_t i = 0; i < found.size(); ++i) {
                     Request request{.prompt = prompt_of(static_cast<int64_t>(3 + 4 * i), 1),
                                     .max_new_tokens = 0,
                                     .pooling = i % 2 == 0 ? Pooling::mean : Pooling::last};
                     request.on_embedding = [&, i](const auto& values) { found[i] = values; };
                     engine.submit(std::move(request));
                   }
                   engine.drain();
                 });
      return found;
    };
    const auto expected = embeddings({});
    for (const Strategy& strategy : layouts_of_states()) {
      TRACED_CASE(testing::Message()
                  << specification.facts.family << ' ' << strategy.tp << ' '
                  << tensor_mode_name(strategy.tensor_mode) << ' ' << strategy.pp);
      const auto found = embeddings(strategy);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].size(), 36);
        for (size_t feature = 0; feature < 36; ++feature) {
          EXPECT_NEAR(found[i][feature], expected[i][feature], 1e-11);
        }
      }
    }
  }
}

// With two stages, the last one sends the states of all tokens of a prompt in addition to the
// logits of one token.
TEST_F(ShardedStates, SendWhatTheLawSays) {
  models::ModelSpecification specification = test::uneven_gpt2();
  test::write_random_weights(specification, folder_.path());
  const InferenceOptions of_model{
      .type = at::kDouble,
      .strategy =
          for_model(test::tensor_strategy(TensorMode::one_d, 1, 1, 2), specification.facts)};
  std::map<comm::Ledger::Key, comm::Traffic> sent;
  test::run_ranks(2, [&](comm::World& world) {
    at::set_num_threads(1);
    const InferenceModel model(specification, of_model, world);
    if (world.rank() != 0) {
      world.ledger().reset();
      follow(*model, specification.facts, *model.ranks());
      sent = world.ledger().entries();
      return;
    }
    Engine engine(*model, specification.facts, {.heartbeat = {.timeout = {}}, .type = at::kDouble},
                  model.ranks());
    engine.submit({.prompt = prompt_of(9, 1), .max_new_tokens = 0, .pooling = Pooling::mean});
    engine.drain();
  });
  const int64_t hidden = 36, vocabulary = 53, tokens = 9, bytes = 8;
  EXPECT_EQ((sent[{"pp.ends", comm::Reason::stage}].law_bytes),
            32 + vocabulary * bytes + 32 + tokens * hidden * bytes);
}

struct Guessed {
  std::vector<Tokens> texts;
  int64_t made = 0;
  int64_t right = 0;
  bool operator==(const Guessed&) const = default;
};

// The vocabulary is so small that some drafts are accepted.
TEST_F(ShardedStates, AHeadGuessesAsOnOneRank) {
  const auto of_few_tokens = [](bool draft_head) {
    return models::resolve_model({.preset = "gpt2-tiny",
                                  .overrides = {{"n_layer", 4},
                                                {"n_embd", 36},
                                                {"n_head", 6},
                                                {"vocab_size", 5},
                                                {"n_positions", 64}},
                                  .draft_head = draft_head});
  };
  models::ModelSpecification specification = of_few_tokens(false);
  test::write_random_weights(specification, folder_.path());
  const auto guessed = [&](const Strategy& strategy) {
    const RandomModel head(of_few_tokens(true), at::kDouble);
    const EngineOptions options{.max_batch_tokens = 17,
                                .speculation = {.kind = Speculation::Kind::head,
                                                .drafts = 2,
                                                .model = head.model.get(),
                                                .facts = head.specification.facts,
                                                .type = at::kDouble},
                                .type = at::kDouble};
    Guessed found;
    over_ranks(specification, strategy, options, [&](Engine& engine) {
      Answers answers;
      for (int64_t i = 0; i < 5; ++i) {
        Request request{.prompt = prompt_of(9 + 4 * i, i, 5), .max_new_tokens = 20};
        request.sampling = {.temperature = i % 2 == 0 ? 0.0 : 1.0,
                            .seed = static_cast<uint64_t>(i)};
        answers.submit(engine, std::move(request));
      }
      engine.drain();
      for (const auto& answer : answers.all) found.texts.push_back(answer->numbers());
      found.made = engine.statistics().draft_tokens;
      found.right = engine.statistics().accepted_tokens;
    });
    return found;
  };
  const Guessed expected = guessed({});
  EXPECT_GT(expected.right, 5);
  EXPECT_LT(expected.right, expected.made - 5);
  for (const Strategy& strategy : layouts_of_states()) {
    TRACED_CASE(testing::Message() << strategy.tp << ' ' << tensor_mode_name(strategy.tensor_mode)
                                   << ' ' << strategy.pp);
    const Guessed found = guessed(strategy);
    EXPECT_EQ(found.texts, expected.texts);
    // In a pipeline, each step has fewer sequences, and hence more drafts for each.
    EXPECT_TRUE(found == expected || strategy.pp > 1);
  }
}

}  // namespace
}  // namespace colossal::serve
