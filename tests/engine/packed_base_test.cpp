// Adapters over frozen weights in few bits (QLoRA), at every layout: they train there as on one
// rank, and as over the numbers that the weights stand for.
#include <gtest/gtest.h>

#include "colossal/models/transformer.h"
#include "colossal/models/transformer_sharding.h"
#include "colossal/ops/product/packed_weight.h"
#include "colossal/parallel/builder.h"
#include "tests/engine/adapter_layouts.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::packed_base {
namespace {

using ops::PackedType;

// Rows of several blocks, whose scales lie in several groups; ranks cut within both.
models::TransformerConfig llama_of_blocks() {
  return decoder("llama-tiny", {{"vocab_size", 97},
                                {"hidden_size", 72},
                                {"intermediate_size", 150},
                                {"num_hidden_layers", 2},
                                {"num_attention_heads", 6},
                                {"num_key_value_heads", 2},
                                {"max_position_embeddings", 16}});
}

// What is cut needs no padding.
models::TransformerConfig llama_of_whole_blocks() {
  return decoder("llama-tiny", {{"vocab_size", 64},
                                {"hidden_size", 128},
                                {"intermediate_size", 256},
                                {"num_hidden_layers", 2},
                                {"num_attention_heads", 4},
                                {"num_key_value_heads", 2},
                                {"max_position_embeddings", 16}});
}

models::TransformerConfig gpt2_of_blocks() {
  return decoder("gpt2-tiny", {{"vocab_size", 97},
                               {"n_positions", 16},
                               {"n_embd", 72},
                               {"n_layer", 2},
                               {"n_head", 3},
                               {"n_inner", 150}});
}

TinyTraining training_of(const models::TransformerConfig& model, std::optional<PackedType> base) {
  TinyTraining training;
  training.model = model;
  training.steps = 2;
  training.adapter = nn::AdapterOptions{
      .rank = 3, .scale = 1.7, .dropout = 0.3, .base = base, .adapted = every_product};
  training.initial = adapters_that_add(training);
  return training;
}

// The weights that a rank packs.
nn::ParameterList packed_weights(const TinyTraining& training, int rank = 0, int ranks = 1) {
  const auto world = comm::dry_world(rank, ranks);
  const ParallelContext context(*world, strategy_of(training, ranks), at::kMeta);
  const auto build = parallel::make_builder(context, training.shardings());
  build->adapt(*training.adapter);
  const models::Transformer model(*build, training.model);
  nn::ParameterList packed;
  for (const nn::ParameterHandle& parameter : build->parameters()) {
    if (parameter->packed) packed.push_back(parameter);
  }
  return packed;
}

// Without packing, with the weights that packing leaves.
TinyTraining over_numbers(const TinyTraining& training) {
  TinyTraining plain = training;
  plain.adapter->base.reset();
  plain.steps = 0;
  const TinyResult before = train_tiny(plain, 1);
  for (const nn::ParameterHandle& parameter : packed_weights(training)) {
    const bool in_out = parameter->product == nn::WeightOrder::in_out;
    const at::Tensor& weight = before.weights.at(parameter->name);
    const at::Tensor oriented = in_out ? weight.t() : weight;
    const ops::PackedLayout& layout = *parameter->packed;
    const at::Tensor numbers = ops::unpack(
        ops::pack(oriented, ops::block_maxima(oriented, layout), layout), layout, at::kDouble);
    plain.initial[parameter->name] = in_out ? numbers.t() : numbers;
  }
  plain.steps = training.steps;
  return plain;
}

void expect_parity(const TinyTraining& training, const std::vector<LayoutCase>& layouts) {
  EXPECT_FALSE(packed_weights(training).empty());
  TinyResult expected = train_tiny(over_numbers(training), 1);
  for (const nn::ParameterHandle& parameter : packed_weights(training)) {
    EXPECT_EQ(expected.weights.erase(parameter->name), 1) << parameter->name;
  }
  expect_same(train_tiny(training, 1), expected, 1e-9, training);
  for (const LayoutCase& which : layouts) {
    TRACED_CASE(which.name);
    const TinyTraining there = at_layout(training, which);
    expect_same(train_tiny(there, which.ranks), expected, 1e-9, there);
  }
}

Trainings trainings() {
  return {{"llama over nf4", training_of(llama_of_blocks(), PackedType::nf4)},
          {"gpt2 over nf4", training_of(gpt2_of_blocks(), PackedType::nf4)},
          {"llama over int8", training_of(llama_of_blocks(), PackedType::int8)}};
}

TEST(PackedBase, TrainsAsOnOneRank) {
  for_thirds_of_layouts(trainings(), expect_parity);
}

TEST(SlowPackedBase, TrainsAsOnOneRank) {
  for_all_layouts(trainings(), expect_parity);
}

// Chunks are padded to 64 bytes, panels are not.
int64_t saved_by_packing(const nn::Parameter& weight, comm::Reason reason) {
  const int64_t alignment = reason == comm::Reason::parameter ? 64 : 1;
  const auto padded = [&](int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  return padded(8 * weight.local_numel()) - padded(weight.packed->bytes());
}

// What packing saves the parts of all ranks where a pass forward and one backward bring each.
// Nothing goes backward beyond the first block's queries, keys and values.
int64_t saved_by_packing(const TinyTraining& training, int ranks, comm::Reason reason) {
  int64_t saved = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const nn::ParameterHandle& weight : packed_weights(training, rank, ranks)) {
      const bool first = weight->name == "blocks.0.query.weight" ||
                         weight->name == "blocks.0.key.weight" ||
                         weight->name == "blocks.0.value.weight";
      saved += (first ? 1 : 2) * saved_by_packing(*weight, reason);
    }
  }
  return training.steps * saved;
}

void expect_saved(const LayoutCase& layout, comm::Reason reason) {
  TRACED_CASE(layout.name);
  TinyTraining packed = at_layout(training_of(llama_of_whole_blocks(), PackedType::nf4), layout);
  packed.chunk_bytes = packed.window_bytes = 1;  // every weight comes for itself
  packed.order_known = true;
  TinyTraining plain = packed;
  plain.adapter->base.reset();
  EXPECT_EQ(sent(train_tiny(plain, layout.ranks), reason) -
                sent(train_tiny(packed, layout.ranks), reason),
            saved_by_packing(packed, layout.layout.tp, reason));
}

// Two ranks of these layouts share a panel, a piece or a chunk, so that each goes to one more.
TEST(PackedBaseBytes, WeightsTravelPacked) {
  expect_saved({.name = "2d4", .ranks = 4, .layout = {.tp = 4, .tensor_mode = TensorMode::two_d}},
               comm::Reason::tensor);
  expect_saved({.name = "3d8", .ranks = 8, .layout = {.tp = 8, .tensor_mode = TensorMode::three_d}},
               comm::Reason::tensor);
  expect_saved({.name = "dp2_zero3", .ranks = 2, .layout = {.zero = 3}}, comm::Reason::parameter);
}

}  // namespace
}  // namespace colossal::test::packed_base
