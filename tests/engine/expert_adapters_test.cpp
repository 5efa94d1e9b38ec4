// Adapters of experts in stacks: they train as on one rank, whoever has experts or parts of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "colossal/ops/product/packed_weight.h"
#include "tests/engine/adapter_layouts.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::expert_adapters {
namespace {

Strategy with_experts(Strategy layout, int ep, int expert_tp) {
  layout.ep = ep;
  layout.expert_tp = expert_tp;
  return layout;
}

// Experts lie where the rows of an earlier run put them.
Strategy placed(Strategy layout) {
  layout.expert_rows = {{5, 90, 3, 80, 10, 20}, {7, 60, 8, 50, 40, 9}};
  return layout;
}

std::vector<LayoutCase> layouts() {
  Strategy pipeline{.pp = 2};
  pipeline.pp_schedule = "1f1b";
  pipeline.stage_ranks = {0, 1};
  pipeline.stage_blocks = {1, 1};
  return {
      {.name = "recomputed", .recompute = {.selective = true, .full_blocks = 1}},
      {.name = "dp4_ep2", .ranks = 4, .layout = with_experts({}, 2, 1)},
      {.name = "dp4_ep2_placed", .ranks = 4, .layout = placed(with_experts({.zero = 1}, 2, 1))},
      {.name = "ep2_parts2_placed", .ranks = 4, .layout = placed(with_experts({}, 2, 2))},
      {.name = "dp4_ep4_zero3", .ranks = 4, .layout = with_experts({.zero = 3}, 4, 1)},
      {.name = "parts2_zero2", .ranks = 4, .layout = with_experts({.zero = 2}, 1, 2)},
      {.name = "ep2_parts2", .ranks = 4, .layout = with_experts({}, 2, 2)},
      {.name = "ep2_parts2_zero1_in_groups",
       .ranks = 8,
       .layout = with_experts({.zero = 1, .zero_group = 4}, 2, 2)},
      {.name = "1d2_ep2", .ranks = 4, .layout = with_experts({.tp = 2}, 2, 1)},
      {.name = "1d2_copied_parts2",
       .ranks = 4,
       .layout = with_experts({.tp = 2, .tp_sequence = false}, 1, 2)},
      {.name = "1d2", .ranks = 2, .layout = {.tp = 2}},
      {.name = "2d4_ep4",
       .ranks = 4,
       .layout = with_experts({.tp = 4, .tensor_mode = TensorMode::two_d}, 4, 1)},
      {.name = "ulysses2_ep2",
       .ranks = 4,
       .layout = with_experts({.sp = 2, .sequence_mode = SequenceMode::ulysses}, 2, 1)},
      {.name = "pp2_ep2", .ranks = 4, .layout = with_experts(pipeline, 2, 1), .micro_batch = 2}};
}

// Of all experts, and of attention, so that what experts give back has somewhere to go.
std::optional<std::string> experts_and_queries(const std::string& product) {
  const size_t place = product.find(".experts.");
  if (place != std::string::npos) {
    return product.substr(0, place) + (product.ends_with(".down") ? ".down" : ".first");
  }
  return product.ends_with(".query") ? std::optional(product) : std::nullopt;
}

void expect_parity(const models::TransformerConfig& model,
                   std::optional<ops::PackedType> base = std::nullopt) {
  TinyTraining training;
  training.model = model;
  training.global_batch = 8;
  training.sequence = 7;
  training.adapter =
      nn::AdapterOptions{.rank = 3, .scale = 1.7, .base = base, .adapted = experts_and_queries};
  training.initial = adapters_that_add(training);
  const TinyResult expected = train_tiny(training, 1);
  EXPECT_TRUE(std::ranges::any_of(expected.gradients, [](const auto& of) {
    return of.first.find(".experts.") != std::string::npos &&
           of.second.norm().template item<double>() > 0;
  }));
  for (const LayoutCase& which : layouts()) {
    TRACED_CASE(which.name);
    const TinyTraining there = at_layout(training, which);
    expect_same(train_tiny(there, which.ranks), expected, 1e-9, there);
  }
}

models::TransformerConfig separate_stacks() {
  return decoder("qwen3-30b-a3b", {{"vocab_size", 61},
                                   {"hidden_size", 28},
                                   {"intermediate_size", 22},
                                   {"moe_intermediate_size", 10},
                                   {"num_hidden_layers", 2},
                                   {"num_attention_heads", 6},
                                   {"num_key_value_heads", 2},
                                   {"head_dim", 4},
                                   {"max_position_embeddings", 16},
                                   {"num_experts", 6},
                                   {"num_experts_per_tok", 2},
                                   {"initializer_range", 0.3}});
}

TEST(ExpertAdapters, TrainAsOnOneRank) {
  expect_parity(separate_stacks());
}

TEST(ExpertAdapters, OfPairedStacksTrainAsOnOneRank) {
  expect_parity(tiny_gpt_oss(2));
}

TEST(ExpertAdapters, RefuseCopiesOfExpertsThatTheyAdapt) {
  TinyTraining training;
  training.model = separate_stacks();
  training.layout = {.ep = 2, .expert_copies = 1};
  training.adapter = nn::AdapterOptions{.rank = 3, .scale = 1.7, .adapted = experts_and_queries};
  try {
    train_tiny(training, 2);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("parallel.expert_copies = 1"), std::string::npos)
        << error.what();
  }
}

TEST(ExpertAdapters, OverABaseInFewBitsTrainAsOnOneRank) {
  expect_parity(separate_stacks(), ops::PackedType::nf4);
  expect_parity(tiny_gpt_oss(2), ops::PackedType::int8);
}

}  // namespace
}  // namespace colossal::test::expert_adapters
