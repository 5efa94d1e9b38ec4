// Models do elementwise work on activations, nothing else: under a builder whose activations lie
// about their shape the loss and every gradient stay the same.
#include "tests/support/lying_builder.h"
#include "tests/support/whole_pass.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "colossal/models/families.h"
#include "colossal/models/transformer.h"
#include "colossal/ops/random.h"

namespace colossal::models {
namespace {

struct Outcome {
  double loss;
  std::vector<at::Tensor> gradients;
};

Outcome run(const TransformerConfig& config, nn::Builder& build) {
  Transformer model(build, config);
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    parameter->tensor = at::empty(parameter->shape, at::kDouble);
    ops::fill_normal(parameter->tensor.view(-1), 0, ops::parameter_stream(3, parameter->name), 0,
                     0.2);
    parameter->tensor.set_requires_grad(true);
  }
  nn::StepContext context = nn::make_step_context(3, 7, at::kCPU);
  context.training = true;
  TokenInputs inputs{at::arange(21).view({3, 7}).mul(5).remainder(61)};
  if (config.encoder_layers > 0) {
    context.grids.insert(context.grids.begin(), nn::make_token_grid(3, 5, at::kCPU));
    context.stack = 1;
    inputs.source = at::arange(15).view({3, 5}).mul(7).remainder(61);
  }
  const at::Tensor loss = loss_sum_of(model, inputs, inputs.tokens.add(1).remainder(61), context);
  torch::autograd::backward({loss}, {});
  Outcome outcome{loss.item<double>(), {}};
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    outcome.gradients.push_back(parameter->tensor.grad());
  }
  return outcome;
}

void expect_the_same(const std::string& preset, const nlohmann::json& fields) {
  const TransformerConfig config =
      resolve_model({.preset = preset, .overrides = fields, .dropout = 0.1}).transformer;
  nn::DenseBuilder dense;
  test::LyingBuilder lying;
  const Outcome expected = run(config, dense);
  const Outcome found = run(config, lying);
  EXPECT_NEAR(found.loss, expected.loss, 1e-10 * expected.loss);
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_LE((found.gradients[i] - expected.gradients[i]).norm().item<double>(), 1e-10)
        << dense.parameters()[i]->name;
  }
}

TEST(LyingBuilder, Gpt2ComputesTheSame) {
  expect_the_same(
      "gpt2-tiny",
      {{"vocab_size", 61}, {"n_positions", 16}, {"n_embd", 24}, {"n_layer", 2}, {"n_head", 3}});
}

TEST(LyingBuilder, LlamaComputesTheSame) {
  expect_the_same("llama-tiny", {{"vocab_size", 61},
                                 {"hidden_size", 24},
                                 {"intermediate_size", 20},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"max_position_embeddings", 16},
                                 {"attention_bias", true}});
}

TEST(LyingBuilder, BertComputesTheSame) {
  expect_the_same("bert-tiny", {{"vocab_size", 61},
                                {"hidden_size", 24},
                                {"intermediate_size", 20},
                                {"num_attention_heads", 4},
                                {"max_position_embeddings", 16}});
}

TEST(LyingBuilder, T5ComputesTheSame) {
  expect_the_same(
      "t5-tiny",
      {{"vocab_size", 61}, {"d_model", 24}, {"d_kv", 6}, {"d_ff", 20}, {"num_heads", 4}});
}

TEST(LyingBuilder, BartComputesTheSame) {
  expect_the_same("bart-tiny", {{"vocab_size", 61},
                                {"d_model", 24},
                                {"encoder_ffn_dim", 20},
                                {"decoder_ffn_dim", 20},
                                {"encoder_attention_heads", 4},
                                {"decoder_attention_heads", 4},
                                {"max_position_embeddings", 16}});
}

}  // namespace
}  // namespace colossal::models
