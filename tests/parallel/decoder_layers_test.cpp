// Layers of today's decoders at every layout: norms of queries and keys, norms without some of
// their parameters, gated activations, parts of heads that turn, and heads whose logits are more
// than products. A small model of each kind trains as it does on one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "colossal/data/text_batch.h"
#include "colossal/models/model.h"
#include "colossal/models/token_grids.h"
#include "colossal/nn/blocks.h"
#include "colossal/nn/builder.h"
#include "tests/support/layout_cases.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::decoder_layers {
namespace {

using NormKind = nn::QueryKeyNormOptions::Kind;
using Over = nn::QueryKeyNormOptions::Over;
using Scaling = ops::RotaryOptions::Scaling;

// Sizes that divide by nothing; three ranks share six heads over two of keys and values unevenly.
constexpr int64_t kHidden = 56, kInner = 50, kHeads = 6, kKeyHeads = 2, kHeadSize = 10;
constexpr int64_t kVocabulary = 101, kLayers = 2;

struct Kind {
  std::string name;
  bool layer_norm = false;
  nn::NormOptions norm{.features = kHidden};
  nn::QueryKeyNormOptions query_key_norm{};
  ops::RotaryOptions rotary{.base = 100};
  ops::Activation gate = ops::Activation::silu;
  nn::VocabularyHeadOptions head{};  // but for the table
  bool tied = false;
  int64_t first_position = -1;  // row of position 0 of a learned table; -1: none
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds{
      {.name = "qwen3", .query_key_norm = {.kind = NormKind::rms}},
      {.name = "gemma",
       .norm = {.features = kHidden, .unit_offset = true},
       .query_key_norm = {.kind = NormKind::rms, .unit_offset = true},
       .gate = ops::Activation::gelu_tanh,
       .head = {.soft_cap = 0.3},
       .tied = true},
      {.name = "olmo2",
       .query_key_norm = {.kind = NormKind::rms, .over = Over::all_heads},
       .rotary = {.base = 100, .scaling = Scaling::yarn, .factor = 4, .original_positions = 16}},
      {.name = "cohere",
       .layer_norm = true,
       .norm = {.features = kHidden, .bias = false},
       .query_key_norm = {.kind = NormKind::layer, .own_weights = true},
       .rotary = {.base = 100, .interleaved = true},
       .head = {.logit_scale = 0.25},
       .tied = true},
      {.name = "phi",
       .layer_norm = true,
       .norm = {.features = kHidden, .weight = false},
       .query_key_norm = {.kind = NormKind::layer, .bias = true},
       .rotary = {.base = 100,
                  .channels = 6,
                  .scaling = Scaling::dynamic,
                  .factor = 2,
                  .original_positions = 7},
       .gate = ops::Activation::relu,
       .head = {.bias = true, .logit_scale = 0.5, .soft_cap = 0.4}},
      {.name = "opt",
       .layer_norm = true,
       .query_key_norm = {.kind = NormKind::layer, .over = Over::all_heads, .bias = true},
       .rotary = {},
       .gate = ops::Activation::quick_gelu,
       .head = {.bias = true},
       .tied = true,
       .first_position = 2},
  };
  return kKinds;
}

class Block : public nn::Block {
 public:
  Block(nn::Builder& build, const Kind& kind, int64_t layer) {
    const auto norm = [&](const std::string& name) {
      return kind.layer_norm ? build.layer_norm(name, kind.norm) : build.rms_norm(name, kind.norm);
    };
    const nn::Initializer normal = nn::Initializer::normal(0.2);
    const int64_t queries = kHeads * kHeadSize, keys = kKeyHeads * kHeadSize;
    auto scope = build.scope(fmt::format("blocks.{}", layer));
    attention_norm_ = norm("attention_norm");
    qkv_ = build.fused_linear({.in_features = kHidden,
                               .parts = {{"query", queries}, {"key", keys}, {"value", keys}},
                               .bias = false,
                               .initializer = normal});
    attention_ = build.attention("attention", {.layer = layer,
                                               .heads = kHeads,
                                               .kv_heads = kKeyHeads,
                                               .head_size = kHeadSize,
                                               .scale = 1 / std::sqrt(double{kHeadSize}),
                                               .query_key_norm = kind.query_key_norm,
                                               .rotary = kind.rotary});
    attention_output_ =
        build.linear("attention_output",
                     {.in_features = queries, .out_features = kHidden, .initializer = normal});
    mlp_norm_ = norm("mlp_norm");
    gate_up_ = build.fused_linear({.in_features = kHidden,
                                   .parts = {{"mlp_gate", kInner}, {"mlp_up", kInner}},
                                   .bias = false,
                                   .initializer = normal});
    activation_ = build.gated_activation("mlp_activation", kind.gate);
    mlp_down_ = build.linear(
        "mlp_down", {.in_features = kInner, .out_features = kHidden, .initializer = normal});
  }

  nn::BlockState forward(const nn::BlockState& state, const nn::StepContext& context) override {
    const at::Tensor& input = state.output();
    at::Tensor y = qkv_->forward(attention_norm_->forward(input, context), context);
    y = attention_output_->forward(attention_->forward(y, {}, context), context);
    const auto [x, normed] = mlp_norm_->add_forward(input, y, context);
    y = activation_->forward(gate_up_->forward(normed, context), context);
    return {{x + mlp_down_->forward(y, context)}};
  }

 private:
  std::unique_ptr<nn::Norm> attention_norm_, mlp_norm_;
  std::unique_ptr<nn::Linear> qkv_, attention_output_, gate_up_, mlp_down_;
  std::unique_ptr<nn::Attention> attention_;
  std::unique_ptr<nn::GatedActivation> activation_;
};

class Decoder : public models::Model, private models::TokenHead {
 public:
  Decoder(nn::Builder& build, const Kind& kind) {
    const nn::Initializer normal = nn::Initializer::normal(0.2);
    const nn::EmbeddingOptions table{kVocabulary, kHidden, normal};
    build.begin_part({nn::ModelPart::Kind::embedding});
    embedding_ = build.embedding("token_embedding", table);
    if (kind.first_position >= 0) {
      positions_ = build.position_embedding(
          "position_embedding", {16 + kind.first_position, kHidden, normal, kind.first_position});
    }
    blocks_ = nn::Blocks(
        build, kLayers, [&](int64_t layer) { return std::make_unique<Block>(build, kind, layer); });
    build.begin_part({nn::ModelPart::Kind::head});
    nn::VocabularyHeadOptions head = kind.head;
    head.table = table;
    head_ = kind.tied ? build.tied_vocabulary_head("head", "token_embedding", head)
                      : build.vocabulary_head("head", head);
  }

  nn::StepContext context_of(const data::Batch& batch, const nn::StepContext& base,
                             const nn::SequencePart& part) const override {
    return models::context_with(base, batch, {models::text_grid(batch, part)});
  }
  nn::BlockState inputs(const data::Batch& batch, const nn::StepContext& context) override {
    const at::Tensor x = embedding_->forward(batch.at(data::kTokens), context);
    return {{positions_ ? x + positions_->forward(context) : x}};
  }
  int64_t num_blocks() const override { return blocks_.size(); }
  nn::BlockState run_blocks(Range blocks, const nn::BlockState& state,
                            const nn::StepContext& context) override {
    return blocks_.forward(blocks, state, context);
  }

 private:
  Parts parts() override { return {.token_head = this}; }
  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const nn::StepContext& context) override {
    return head_->loss_sum(x, labels, context);
  }
  at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels, double temperature,
                               const nn::StepContext& context) override {
    return head_->log_probabilities(x, labels, temperature, context);
  }
  at::Tensor local_logits(const at::Tensor& x, double temperature,
                          const nn::StepContext& context) override {
    return head_->logits_here(x, temperature, context);
  }
  at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                         double temperature, const nn::StepContext& context) override {
    return head_->divergences(x, teacher, beta, temperature, context);
  }
  at::Tensor logits(const at::Tensor& x, const nn::StepContext& context,
                    const at::Tensor& wanted) override {
    return head_->logits(x, context, wanted);
  }
  at::Tensor final_states(const at::Tensor& x, const nn::StepContext&) override { return x; }
  at::Tensor logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                              const at::Tensor& wanted) override {
    return head_->logits(states, context, wanted);
  }
  at::Tensor gathered_states(const at::Tensor& states, const nn::StepContext& context,
                             const at::Tensor& wanted) override {
    return head_->gathered_states(states, context, wanted);
  }

  std::unique_ptr<nn::Embedding> embedding_;
  std::unique_ptr<nn::PositionEmbedding> positions_;
  nn::Blocks blocks_;
  std::unique_ptr<nn::VocabularyHead> head_;
};

TinyTraining training_of(size_t kind) {
  TinyTraining training;
  training.model = {.vocabulary = kVocabulary,
                    .hidden = kHidden,
                    .layers = kLayers,
                    .positions = 16,
                    .heads = kHeads,
                    .kv_heads = kKeyHeads,
                    .head_size = kHeadSize,
                    .inner = kInner};
  training.make_model = [kind](nn::Builder& build) {
    return std::make_unique<Decoder>(build, kinds()[kind]);
  };
  training.steps = 3;
  training.global_batch = 6;
  training.eps = 1e-6;
  return training;
}

struct Case {
  size_t kind = 0;
  Strategy layout;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}", kinds()[info.param.kind].name, layout_name(info.param.layout));
}

std::vector<Strategy> layouts() {
  std::vector<Strategy> all;
  for (const SequenceMode mode : {SequenceMode::ring, SequenceMode::ulysses}) {
    all.push_back({.sp = 2, .sequence_mode = mode});
    all.push_back({.sp = 3, .zero = 1, .sequence_mode = mode});
    all.push_back({.sp = 2, .tp = 2, .sequence_mode = mode});
    all.push_back({.sp = 2, .tp = 4, .tensor_mode = TensorMode::two_d, .sequence_mode = mode});
  }
  for (const bool tp_sequence : {false, true}) {
    for (const int tp : {2, 3, 4}) all.push_back({.tp = tp, .tp_sequence = tp_sequence});
    all.push_back({.dp = 2, .tp = 3, .zero = 1, .tp_sequence = tp_sequence});
    all.push_back({.tp = 3, .tp_sequence = tp_sequence, .table_rows = 16});
  }
  all.push_back({.table_rows = 16});
  all.push_back({.tp = 4, .tensor_mode = TensorMode::two_d});
  all.push_back({.tp = 4, .tensor_mode = TensorMode::two_d, .table_rows = 16});
  all.push_back({.tp = 9, .tensor_mode = TensorMode::two_d});
  all.push_back({.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2});
  all.push_back({.tp = 8, .tensor_mode = TensorMode::three_d});
  all.push_back({.tp = 8, .tensor_mode = TensorMode::three_d, .table_rows = 16});
  return all;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (size_t kind = 0; kind < kinds().size(); ++kind) {
    for (const Strategy& layout : layouts()) cases.push_back({kind, layout});
  }
  return cases;
}

// Each kind at the layouts that differ in what they do with its layers.
std::vector<Case> few_cases() {
  const std::vector<Strategy> all = layouts();
  std::vector<Case> cases;
  for (size_t kind = 0; kind < kinds().size(); ++kind) {
    for (size_t i = kind % 3; i < all.size(); i += 3) cases.push_back({kind, all[i]});
  }
  return cases;
}

const TinyResult& serial(size_t kind) {
  static std::map<size_t, TinyResult> results;
  const auto [found, is_new] = results.try_emplace(kind);
  if (is_new) found->second = train_tiny(training_of(kind), 1);
  return found->second;
}

class DecoderLayers : public testing::TestWithParam<Case> {};

TEST_P(DecoderLayers, Fp64EqualsSerial) {
  TinyTraining training = training_of(GetParam().kind);
  training.layout = GetParam().layout;
  expect_same(train_tiny(training, training.layout.world_size()), serial(GetParam().kind), 1e-9,
              training);
}

INSTANTIATE_TEST_SUITE_P(Layouts, DecoderLayers, testing::ValuesIn(few_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, DecoderLayers, testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace colossal::test::decoder_layers
