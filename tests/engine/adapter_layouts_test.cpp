// Low-rank adapters at every layout: they train there as on one rank, the model is frozen, and
// nothing but the adapters' own traffic and state comes with them.
#include <gtest/gtest.h>

#include "colossal/ops/product/packed_weight.h"
#include "tests/engine/adapter_layouts.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::adapter_layouts {
namespace {

using Adapted = std::function<std::optional<std::string>(const std::string& product)>;

// Queries and values share A, as where files stack them; keys and what goes up have none.
std::optional<std::string> some_products(const std::string& product) {
  if (product.ends_with(".key") || product.ends_with(".mlp_up")) return std::nullopt;
  const bool stacked = product.ends_with(".query") || product.ends_with(".value");
  return stacked ? product.substr(0, product.rfind('.')) + ".stacked" : product;
}

TinyTraining training_of(const models::TransformerConfig& model, const Adapted& adapted) {
  TinyTraining training;
  training.model = model;
  training.adapter =
      nn::AdapterOptions{.rank = 3, .scale = 1.7, .dropout = 0.3, .adapted = adapted};
  training.initial = adapters_that_add(training);
  return training;
}

bool is_adapters(const std::string& parameter) {
  return parameter.find(".lora_") != std::string::npos;
}

void expect_parity(const TinyTraining& training, const std::vector<LayoutCase>& layouts) {
  const TinyResult expected = train_tiny(training, 1);
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(is_adapters(name)) << name;
    EXPECT_GT(gradient.norm().item<double>(), 0) << name;
  }
  for (const LayoutCase& which : layouts) {
    TRACED_CASE(which.name);
    const TinyTraining there = at_layout(training, which);
    expect_same(train_tiny(there, which.ranks), expected, 1e-9, there);
  }
}

TinyTraining with_magnitudes(TinyTraining training) {
  training.adapter->magnitudes = true;
  training.initial = adapters_that_add(training);
  return training;
}

Trainings trainings() {
  TinyTraining tables_in_blocks = training_of(tiny_llama(), every_product_and_table);
  tables_in_blocks.layout.table_rows = 20;
  TinyTraining packed = training_of(tiny_llama(), some_products);
  packed.adapter->base = ops::PackedType::nf4;
  packed.adapter->sizes["blocks.0.stacked"] = {.rank = 5, .scale = 0.4};
  return {
      {"llama", training_of(tiny_llama(), every_product_and_table)},
      // Whose embedding and head share a table, and each has an adapter of its own.
      {"gpt2", training_of(tiny_gpt2(), every_product_and_table)},
      {"tables in blocks of rows", tables_in_blocks},
      {"llama with magnitudes", with_magnitudes(training_of(tiny_llama(), every_product))},
      {"gpt2 with magnitudes", with_magnitudes(training_of(tiny_gpt2(), every_product))},
      {"other ranks and magnitudes over a packed base", with_magnitudes(packed)},
      {"parts of a product that share one or have none", training_of(tiny_llama(), some_products)},
  };
}

TEST(AdapterLayouts, TrainAsOnOneRank) {
  for_thirds_of_layouts(trainings(), expect_parity);
}

TEST(SlowAdapterLayouts, TrainAsOnOneRank) {
  for_all_layouts(trainings(), expect_parity);
}

TEST(AdapterLayouts, TheModelStaysAsItIs) {
  TinyTraining training = training_of(tiny_llama(), every_product);
  const TinyResult after = train_tiny(training, 1);
  training.steps = 0;
  const TinyResult before = train_tiny(training, 1);
  for (const auto& [name, weight] : before.weights) {
    EXPECT_EQ(after.weights.at(name).equal(weight), !is_adapters(name)) << name;
  }
}

// Sizes that need no padding.
TinyTraining unpadded(int64_t rank) {
  TinyTraining training;
  training.model = unpadded_gpt2();
  training.adapter = nn::AdapterOptions{.rank = rank, .adapted = every_product};
  training.steps = 2;
  return training;
}

TEST(AdapterBytes, GradientsAndUpdatesAreTheAdaptersAlone) {
  constexpr int64_t kRank = 8, kLayers = 2;
  // Inputs and outputs of qkv, attention_output, mlp_up and mlp_down.
  constexpr int64_t kNumel = kLayers * kRank * ((24 + 72) + (24 + 24) + (24 + 48) + (48 + 24));
  for (int zero : {0, 1, 2}) {
    TinyTraining training = unpadded(kRank);
    training.layout.zero = zero;
    const TinyResult result = train_tiny(training, 3);
    EXPECT_EQ(sent(result, comm::Reason::gradient),
              training.steps * (zero == 0 ? 2 : 1) * 2 * 8 * kNumel);
    EXPECT_EQ(sent(result, comm::Reason::parameter),
              zero == 0 ? 0 : training.steps * 2 * 8 * kNumel);
  }
}

// What adapters of twice the rank send more is what adapters of that rank send.
TEST(AdapterBytes, OfTensorParallelismEqualTheLaw) {
  struct Law {
    LayoutCase layout;
    int64_t factor;  // of tokens * rank * bytes, for each product and step
  };
  const std::vector<Law> laws{
      {{.name = "1d3", .ranks = 3, .layout = {.tp = 3}}, 2 * 2},
      {{.name = "1d3_copied", .ranks = 3, .layout = {.tp = 3, .tp_sequence = false}}, 2 * 2},
      {{.name = "2d4", .ranks = 4, .layout = {.tp = 4, .tensor_mode = TensorMode::two_d}}, 4},
      {{.name = "2.5d8",
        .ranks = 8,
        .layout = {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2}},
       4},
      {{.name = "3d8", .ranks = 8, .layout = {.tp = 8, .tensor_mode = TensorMode::three_d}}, 6}};
  for (const auto& [layout, factor] : laws) {
    TRACED_CASE(layout.name);
    constexpr int64_t kRank = 8, kProducts = 2 * 4;
    const TinyTraining once = at_layout(unpadded(kRank), layout);
    const TinyTraining twice = at_layout(unpadded(2 * kRank), layout);
    const int64_t tokens = once.global_batch * once.sequence;
    EXPECT_EQ(sent(train_tiny(twice, layout.ranks), comm::Reason::tensor) -
                  sent(train_tiny(once, layout.ranks), comm::Reason::tensor),
              once.steps * kProducts * factor * tokens * kRank * 8);
  }
}

}  // namespace
}  // namespace colossal::test::adapter_layouts
