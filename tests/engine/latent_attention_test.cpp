// Latent attention at every layout: the same numbers as on one rank, with adapters too, and the
// bytes of the laws. The layers with experts are others' tests: here all are dense.
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::latent_attention {
namespace {

struct Case {
  std::string name;
  int ranks = 1;
  Strategy layout{};
  memory::Recompute recompute{};
  int64_t micro_batch = 0;
};

Strategy pipeline() {
  Strategy layout{.pp = 2};
  layout.pp_schedule = "zb-h1";
  layout.stage_ranks = {0, 1};
  layout.stage_blocks = {1, 1};
  return layout;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {.name = "dp3_zero3_recomputed",
       .ranks = 3,
       .layout = {.zero = 3},
       .recompute = {.selective = true, .full_blocks = 1}},
      {.name = "1d4", .ranks = 4, .layout = {.tp = 4}},
      {.name = "1d2_copied", .ranks = 2, .layout = {.tp = 2, .tp_sequence = false}},
      {.name = "1d2_dp2_zero2", .ranks = 4, .layout = {.tp = 2, .zero = 2}, .micro_batch = 4},
      {.name = "2d4", .ranks = 4, .layout = {.tp = 4, .tensor_mode = TensorMode::two_d}},
      {.name = "2.5d8",
       .ranks = 8,
       .layout = {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2}},
      {.name = "3d8", .ranks = 8, .layout = {.tp = 8, .tensor_mode = TensorMode::three_d}},
      // A rank holds no sequence of some micro-batches.
      {.name = "3d8_short",
       .ranks = 8,
       .layout = {.tp = 8, .tensor_mode = TensorMode::three_d},
       .micro_batch = 3},
      {.name = "ring3", .ranks = 3, .layout = {.sp = 3}},
      {.name = "ulysses4", .ranks = 4, .layout = {.sp = 4, .sequence_mode = SequenceMode::ulysses}},
      {.name = "1d2_ring2", .ranks = 4, .layout = {.sp = 2, .tp = 2}},
      {.name = "1d2_ulysses2",
       .ranks = 4,
       .layout = {.sp = 2, .tp = 2, .tp_sequence = false, .sequence_mode = SequenceMode::ulysses}},
      {.name = "pp2_zb", .ranks = 2, .layout = pipeline(), .micro_batch = 5},
  };
  return kCases;
}

models::TransformerConfig latent_decoder(int64_t query_rank, int64_t key_value_rank) {
  nlohmann::json rank;  // null: none
  if (query_rank > 0) rank = query_rank;
  return decoder("deepseek-v3", {{"vocab_size", 97},
                                 {"hidden_size", 24},
                                 {"intermediate_size", 40},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 5},
                                 {"num_key_value_heads", 5},
                                 {"max_position_embeddings", 64},
                                 {"rope_scaling", nlohmann::json()},
                                 {"q_lora_rank", rank},
                                 {"kv_lora_rank", key_value_rank},
                                 {"qk_nope_head_dim", 6},
                                 {"qk_rope_head_dim", 4},
                                 {"v_head_dim", 7},
                                 {"first_k_dense_replace", 2},
                                 {"attention_bias", true},
                                 {"initializer_range", 0.2}});
}

// Every `step`-th layout from the first one on.
void expect_parity(const TinyTraining& training, size_t first, size_t step) {
  const TinyResult expected = train_tiny(training, 1);
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_GT(gradient.norm().item<double>(), 0) << name;
  }
  for (size_t i = first; i < cases().size(); i += step) {
    const Case& which = cases()[i];
    TRACED_CASE(which.name);
    TinyTraining there = training;
    there.layout = which.layout;
    there.micro_batch = which.micro_batch;
    there.recompute = which.recompute;
    expect_same(train_tiny(there, which.ranks), expected, 1e-9, there);
  }
}

std::vector<TinyTraining> trainings() {
  TinyTraining plain, without_latents_of_queries;
  plain.model = latent_decoder(9, 11);
  without_latents_of_queries.model = latent_decoder(0, 11);
  TinyTraining adapters = plain;
  adapters.adapter = nn::AdapterOptions{
      .rank = 3, .scale = 1.7, .dropout = 0.3, .adapted = [](const std::string& product) {
        return std::optional(product);
      }};
  adapters.initial = adapters_that_add(adapters);
  return {plain, without_latents_of_queries, adapters};
}

// Each takes a third of the layouts; the slow test takes all for each.
TEST(LatentAttention, TrainsAsOnOneRank) {
  for (size_t i = 0; i < 3; ++i) expect_parity(trainings().at(i), i, 3);
}

TEST(SlowLatentAttention, TrainsAsOnOneRank) {
  for (const TinyTraining& training : trainings()) expect_parity(training, 0, 1);
}

int64_t sent_for_products(const TinyResult& result) {
  int64_t bytes = 0;
  for (const auto& traffic : result.traffic) {
    for (const auto& [key, sum] : traffic) {
      EXPECT_EQ(sum.law_bytes, sum.wire_bytes) << key.axis;
      if (key.reason == comm::Reason::tensor) bytes += sum.law_bytes;
    }
  }
  return bytes;
}

// docs/laws.md: latents of more features send more by the law of latents.
TEST(LatentAttention, BytesOfLatentsEqualTheLaw) {
  struct Law {
    Case layout;
    int64_t factor;  // of tokens * rank * bytes, for each layer and step
  };
  const std::vector<Law> laws{
      {{.name = "1d3", .ranks = 3, .layout = {.tp = 3}}, 2 * 2},
      {{.name = "1d3_copied", .ranks = 3, .layout = {.tp = 3, .tp_sequence = false}}, 2 * 2},
      {{.name = "2d4", .ranks = 4, .layout = {.tp = 4, .tensor_mode = TensorMode::two_d}}, 4},
      {{.name = "3d8", .ranks = 8, .layout = {.tp = 8, .tensor_mode = TensorMode::three_d}}, 6}};
  for (const auto& [layout, factor] : laws) {
    TRACED_CASE(layout.name);
    constexpr int64_t kRank = 8;
    const auto sent_with = [&, &layout = layout](int64_t rank) {
      TinyTraining training;
      training.model = latent_decoder(9, rank);
      training.layout = layout.layout;
      training.steps = 1;
      return sent_for_products(train_tiny(training, layout.ranks));
    };
    const TinyTraining sizes;
    EXPECT_EQ(sent_with(2 * kRank) - sent_with(kRank),
              2 * factor * sizes.global_batch * sizes.sequence * kRank * 8);
  }
}

}  // namespace
}  // namespace colossal::test::latent_attention
