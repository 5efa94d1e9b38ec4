// Prefixes at every layout: they train there as on one rank, before every document too, and no
// frozen weight has a gradient.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "colossal/adapters/prefix.h"
#include "colossal/ops/product/packed_weight.h"
#include "tests/engine/adapter_layouts.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::prefix_layouts {
namespace {

constexpr int64_t kVirtualTokens = 5;

TinyTraining training_of(const models::TransformerConfig& model) {
  TinyTraining training;
  training.model = model;
  training.adapter = adapters::adapter_options(
      adapters::PrefixSettings{.virtual_tokens = kVirtualTokens, .begins_with_zeros = false});
  return training;
}

void expect_parity(const TinyTraining& training, const std::vector<LayoutCase>& layouts) {
  const TinyResult expected = train_tiny(training, 1);
  EXPECT_EQ(std::ssize(expected.gradients), 2 * training.model.layers);
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(adapters::find_prefix_parameter(name)) << name;
    EXPECT_GT(gradient.norm().item<double>(), 0) << name;
  }
  for (const LayoutCase& which : layouts) {
    TRACED_CASE(which.name);
    const TinyTraining there = at_layout(training, which);
    expect_same(train_tiny(there, which.ranks), expected, 1e-9, there);
  }
}

TinyTraining over_documents(TinyTraining training) {
  training.end_of_document = 7;
  training.tokens = at::arange(12 * 11).view({12, 11}).mul(5).remainder(13);
  return training;
}

Trainings trainings() {
  TinyTraining windows = training_of(decoder("mistral-7b-v0.1", {{"vocab_size", 97},
                                                                 {"hidden_size", 36},
                                                                 {"intermediate_size", 52},
                                                                 {"num_hidden_layers", 2},
                                                                 {"num_attention_heads", 6},
                                                                 {"num_key_value_heads", 2},
                                                                 {"head_dim", 6},
                                                                 {"sliding_window", 6},
                                                                 {"max_position_embeddings", 32}}));
  windows.adapter->base = ops::PackedType::int8;
  return {{"llama", training_of(tiny_llama())},
          // Dropout of attention probabilities, those of virtual tokens included.
          {"gpt2 with dropout", training_of(tiny_gpt2(0.2))},
          {"documents", over_documents(training_of(tiny_llama()))},
          {"windows over documents and a packed base", over_documents(windows)}};
}

TEST(PrefixLayouts, TrainAsOnOneRank) {
  for_thirds_of_layouts(trainings(), expect_parity);
}

TEST(SlowPrefixLayouts, TrainAsOnOneRank) {
  for_all_layouts(trainings(), expect_parity);
}

// A prefix does not travel: ranks that share a sequence all have it.
TEST(PrefixBytes, GradientsAndUpdatesAreThePrefixesAlone) {
  constexpr int64_t kTokens = 8, kNumel = 2 * 2 * kTokens * 24;  // keys and values of two layers
  for (const int zero : {0, 2}) {
    TinyTraining training = training_of(unpadded_gpt2());
    training.adapter->virtual_tokens = kTokens;
    training.sequence = 8;
    training.steps = 2;
    training.layout.zero = zero;
    const TinyResult result = train_tiny(training, 3);
    EXPECT_EQ(sent(result, comm::Reason::gradient),
              training.steps * (zero == 0 ? 2 : 1) * 2 * 8 * kNumel);
  }
  TinyTraining ring = training_of(unpadded_gpt2());
  ring.sequence = 9;
  ring.layout.sp = 3;
  TinyTraining longer = ring;
  longer.adapter->virtual_tokens = kVirtualTokens + 1;
  EXPECT_EQ(sent(train_tiny(ring, 3), comm::Reason::sequence),
            sent(train_tiny(longer, 3), comm::Reason::sequence));
}

}  // namespace
}  // namespace colossal::test::prefix_layouts
