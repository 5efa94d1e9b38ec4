#include "colossal/serve/inference_model.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "colossal/base/error.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/random.h"
#include "colossal/serve/engine.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {
namespace {

models::ModelSpecification gpt2() {
  return models::resolve_model({.preset = "gpt2-tiny",
                                .overrides = {{"n_layer", 3},
                                              {"n_embd", 24},
                                              {"n_head", 3},
                                              {"vocab_size", 50},
                                              {"n_positions", 20}}});
}

models::ModelSpecification llama(bool tied) {
  return models::resolve_model({.preset = "llama-tiny",
                                .overrides = {{"num_hidden_layers", 3},
                                              {"hidden_size", 24},
                                              {"head_dim", 8},
                                              {"num_attention_heads", 3},
                                              {"num_key_value_heads", 1},
                                              {"intermediate_size", 40},
                                              {"vocab_size", 50},
                                              {"max_position_embeddings", 20},
                                              {"tie_word_embeddings", tied}}});
}

class WeightsInTiers : public testing::Test {
 protected:
  WeightsInTiers() { at::set_num_threads(1); }  // more threads only slow down such small tensors

  // Chunks of about one matrix, two of them at once.
  InferenceOptions options(memory::TierShares shares) const {
    return {.tiers = {.parameters = shares, .nvme_path = folder_.path()},
            .chunk_bytes = 4096,
            .window_bytes = 8192};
  }
  static std::vector<int32_t> tokens_of(const models::ModelSpecification& specification,
                                        const InferenceOptions& options) {
    const InferenceModel model(specification, options);
    std::vector<int32_t> tokens;
    // Twice, because the second text begins with the chunks that the first one left on the device.
    for (const std::vector<int32_t>& prompt : {std::vector{4, 8, 15}, std::vector{16}}) {
      Engine engine(*model, specification.facts);
      engine.submit({.prompt = prompt,
                     .sampling = {.seed = 5},
                     .max_new_tokens = 8,
                     .on_token = [&](const GeneratedToken& token) {
                       tokens.push_back(token.token);
                       return true;
                     }});
      engine.drain();
    }
    return tokens;
  }

  const test::TemporaryDirectory folder_;
};

TEST_F(WeightsInTiers, GiveTheSameTokens) {
  for (models::ModelSpecification specification :
       {gpt2(), llama(false), llama(true), test::gpt_oss_of_few_experts(),
        test::qwen_of_few_experts()}) {
    SCOPED_TRACE(specification.config.dump());
    test::write_random_weights(specification, folder_.path());
    const std::vector<int32_t> expected = tokens_of(specification, options({}));
    EXPECT_EQ(expected.size(), 16);
    EXPECT_GT(std::set<int32_t>(expected.begin(), expected.end()).size(), 2);
    for (const memory::TierShares shares :
         {memory::TierShares{.host = 1}, {.nvme = 1}, {.host = 0.5, .nvme = 0.3}}) {
      SCOPED_TRACE(fmt::format("host {}, nvme {}", shares.host, shares.nvme));
      EXPECT_EQ(tokens_of(specification, options(shares)), expected);
    }
    InferenceOptions in_blocks = options({.nvme = 1});
    in_blocks.table_rows = 11;
    EXPECT_EQ(tokens_of(specification, in_blocks), expected);
    // A minimal window, and one for all weights.
    for (const int64_t window : {int64_t{0}, int64_t{1} << 30}) {
      InferenceOptions other = options({.nvme = 1});
      other.window_bytes = window;
      EXPECT_EQ(tokens_of(specification, other), expected);
    }
  }
}

TEST_F(WeightsInTiers, AreDescribedWhereTheyAreNotOnTheDevice) {
  models::ModelSpecification specification = gpt2();
  test::write_random_weights(specification, folder_.path());
  EXPECT_EQ(InferenceModel(specification, options({})).describe_offload(), "");
  const std::string text =
      InferenceModel(specification, options({.host = 0.5, .nvme = 0.3})).describe_offload();
  EXPECT_THAT(text, testing::HasSubstr("on the device"));
  EXPECT_THAT(text, testing::HasSubstr("on the host"));
  EXPECT_THAT(text, testing::HasSubstr("on nvme in " + folder_.path().string()));
}

at::Tensor logits_of(const models::ModelSpecification& specification,
                     const InferenceOptions& options) {
  const at::NoGradGuard no_grad;
  const InferenceModel model(specification, options);
  const at::Tensor tokens = at::arange(5, at::kLong).view({1, 5}) * 7;
  return colossal::logits_of(*model, tokens, nn::make_step_context(1, 5, at::kCPU));
}

TEST(Quantized, AModelIsThatOfTheNumbersBehindItsCodes) {
  using Type = ops::Quantization::Type;
  at::set_num_threads(1);
  for (models::ModelSpecification specification :
       {gpt2(), llama(false), llama(true), test::gpt_oss_of_few_experts(),
        test::qwen_of_few_experts()}) {
    for (const ops::Quantization& how : {ops::Quantization{.type = Type::int8},
                                         {.type = Type::int4, .group = 32},
                                         {.type = Type::int4, .group = 32, .zero_point = true}}) {
      const test::TemporaryDirectory plain, rounded;
      test::write_random_weights(
          specification, rounded.path(), {},
          [&](const nn::Parameter& parameter, const at::Tensor& weight) {
            const bool in_out = parameter.product == nn::WeightOrder::in_out;
            const ops::Quantization of_head{.type = Type::int8};
            // Quantizes all matrices of a stack as one.
            const at::Tensor oriented = in_out ? weight.transpose(-1, -2) : weight;
            const at::Tensor numbers =
                ops::dequantize(
                    ops::quantize(oriented.flatten(0, -2),
                                  parameter.role == nn::ParameterRole::head_table ? of_head : how),
                    at::kFloat)
                    .view(oriented.sizes());
            return in_out ? numbers.transpose(-1, -2) : numbers;
          });
      const at::Tensor expected = logits_of(specification, {.type = at::kDouble});
      test::write_random_weights(specification, plain.path());
      const at::Tensor unrounded = logits_of(specification, {.type = at::kDouble});
      const at::Tensor found = logits_of(specification, {.type = at::kDouble, .quantization = how});
      EXPECT_LE((found - expected).norm().item<double>(), 1e-12 * expected.norm().item<double>());
      EXPECT_GE((unrounded - expected).norm().item<double>(),
                1e-4 * expected.norm().item<double>());
    }
  }
}

TEST(Quantized, WeightsAreFewerBytesAndRestOnTheDevice) {
  const test::TemporaryDirectory folder;
  models::ModelSpecification specification = llama(false);
  test::write_random_weights(specification, folder.path());
  const int64_t plain = InferenceModel(specification, {}).weight_bytes();
  InferenceOptions options{.quantization = ops::Quantization{}};
  const int64_t quantized = InferenceModel(specification, options).weight_bytes();
  // The token table and norms are not quantized: 50 x 24 and 7 x 24 values of 4 bytes.
  EXPECT_EQ(plain % 4, 0);
  EXPECT_LT(quantized - 4 * (50 + 7) * 24, (plain - 4 * (50 + 7) * 24) / 2);
  options.tiers.parameters = {.host = 1};
  EXPECT_THROW(InferenceModel(specification, options), ConfigError);
}

std::string refusal_with(models::ModelSpecification specification,
                         const std::map<std::string, at::Tensor>& others) {
  const test::TemporaryDirectory folder;
  test::write_random_weights(specification, folder.path(), others);
  try {
    const InferenceModel model(specification, {});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Weights, NoneIsLeftOut) {
  const at::Tensor values = at::zeros({2});
  EXPECT_EQ(refusal_with(gpt2(), {}), "accepted");
  EXPECT_THAT(
      refusal_with(gpt2(), {{"transformer.h.3.ln_1.weight", values}, {"score.weight", values}}),
      testing::AllOf(testing::HasSubstr("2 of its"), testing::HasSubstr("\"score.weight\""),
                     testing::HasSubstr("\"transformer.h.3.ln_1.weight\"")));
  EXPECT_THAT(refusal_with(llama(false), {{"model.layers.0.mlp.up_proj.bias", values}}),
              testing::HasSubstr("\"model.layers.0.mlp.up_proj.bias\""));
}

TEST(Weights, WhatAModelComputesItselfMayBeThere) {
  const at::Tensor values = at::zeros({2});
  EXPECT_EQ(refusal_with(gpt2(), {{"transformer.h.0.attn.bias", values},
                                  {"transformer.h.0.attn.masked_bias", values}}),
            "accepted");
  EXPECT_EQ(refusal_with(llama(false), {{"model.layers.0.self_attn.rotary_emb.inv_freq", values}}),
            "accepted");
}

TEST(Weights, ATiedHeadMayBeThereOnceMore) {
  at::Tensor table = at::empty({50, 24});
  ops::fill_normal(table.view(-1), 0, ops::parameter_stream(3, "token_embedding.weight"), 0, 0.5);
  EXPECT_EQ(refusal_with(llama(true), {{"lm_head.weight", table}}), "accepted");
  EXPECT_THAT(refusal_with(llama(true), {{"lm_head.weight", table + 1}}),
              testing::AllOf(testing::HasSubstr("\"lm_head.weight\" differs"),
                             testing::HasSubstr("tie_word_embeddings")));
}

TEST_F(WeightsInTiers, RefuseAFolderThatIsNone) {
  models::ModelSpecification specification = gpt2();
  test::write_random_weights(specification, folder_.path());
  InferenceOptions missing = options({.nvme = 1});
  missing.tiers.nvme_path = folder_.path() / "missing";
  try {
    const InferenceModel model(specification, missing);
    ADD_FAILURE() << "taken";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(missing.tiers.nvme_path));
  }
}

}  // namespace
}  // namespace colossal::serve
