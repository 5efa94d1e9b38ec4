#include "colossal/models/gpt2/config.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "colossal/models/families.h"
#include "colossal/models/gpt2/weights.h"

namespace colossal::models {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json valid() {
  return {{"model_type", "gpt2"}, {"vocab_size", 97}, {"n_positions", 16},
          {"n_embd", 36},         {"n_layer", 2},     {"n_head", 3}};
}

std::string refusal(const json& config) {
  try {
    gpt2::parse_config(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Gpt2Config, RoundTripsThroughJson) {
  json config = valid();
  config["n_inner"] = 52;
  config["resid_pdrop"] = 0.25;
  const gpt2::Config parsed = gpt2::parse_config(config);
  EXPECT_EQ(parsed.n_inner, 52);
  EXPECT_EQ(parsed.resid_pdrop, 0.25);
  EXPECT_EQ(gpt2::parse_config(gpt2::to_json(parsed)), parsed);
}

TEST(Gpt2Config, EveryFieldIsCheckedByName) {
  const std::vector<std::pair<json, std::string>> cases{
      {{{"n_embd", nullptr}}, "\"n_embd\" is missing"},
      {{{"n_embd", "36"}}, "n_embd = \"36\""},
      {{{"n_embd", -36}}, "n_embd = -36"},
      {{{"n_layer", 0}}, "n_layer = 0"},
      {{{"n_layer", 1e9}}, "n_layer"},
      {{{"vocab_size", uint64_t{1} << 60}}, "vocab_size = 1152921504606846976"},
      {{{"vocab_size", UINT64_MAX}}, "vocab_size"},
      {{{"n_head", 5}}, "n_embd = 36 is not a multiple of n_head = 5"},
      {{{"attn_pdrop", 1.5}}, "attn_pdrop = 1.5"},
      {{{"attn_pdrop", json::array()}}, "attn_pdrop = []"},
      {{{"tie_word_embeddings", 1}}, "tie_word_embeddings = 1"},
      {{{"activation_function", "relu"}}, "activation_function = \"relu\""},
      {{{"scale_attn_weights", false}}, "scale_attn_weights = false"},
      {{{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx"},
  };
  for (const auto& [change, message] : cases) {
    json config = valid();
    config.update(change);
    EXPECT_THAT(refusal(config), HasSubstr(message));
  }
  EXPECT_EQ(refusal(valid()), "accepted");
}

TEST(Gpt2Facts, CountsParametersOfThePublishedSize) {
  const ModelFacts facts = gpt2::facts(gpt2::Config{});
  EXPECT_EQ(facts.parameters,
            124439808);  // transformers' GPT2LMHeadModel(GPT2Config()).num_parameters()
  EXPECT_EQ(facts.flops_per_token(512),
            6.0 * (12.0 * 12 * 768 * 768 + 50257.0 * 768) + 12.0 * 12 * 768 * 512);
}

std::string request_refusal(const ModelRequest& request) {
  try {
    resolve_model(request);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ResolveModel, NamesWhatIsWrongAndWhatWouldWork) {
  EXPECT_THAT(request_refusal({}), HasSubstr("neither is given"));
  EXPECT_THAT(request_refusal({.preset = "gpt2-tiny", .path = "x"}), HasSubstr("both are given"));
  EXPECT_THAT(request_refusal({.preset = "gpt2-tin"}), HasSubstr("nearest: \"gpt2-tiny\""));
  EXPECT_THAT(request_refusal({.path = "/nowhere"}), HasSubstr("/nowhere/config.json"));
  EXPECT_THAT(request_refusal({.preset = "gpt2-tiny", .overrides = {{"n_layers", 3}}}),
              HasSubstr("nearest: model.n_layer"));
  EXPECT_THAT(request_refusal({.preset = "gpt2-tiny", .overrides = {{"model_type", "bert"}}}),
              HasSubstr("unknown family"));
}

TEST(ResolveModel, OverridesAndDropoutApply) {
  const ModelSpecification made =
      resolve_model({.preset = "gpt2-tiny", .overrides = {{"n_layer", 2}}, .dropout = 0.1});
  EXPECT_EQ(made.facts.layers, 2);
  EXPECT_EQ(made.config["attn_pdrop"], 0.1);
}

TEST(Gpt2Weights, NamesAreThoseOfTransformers) {
  EXPECT_EQ(gpt2::hugging_face_name("token_embedding.weight"), "transformer.wte.weight");
  EXPECT_EQ(gpt2::hugging_face_name("blocks.11.mlp_down.bias"), "transformer.h.11.mlp.c_proj.bias");
  EXPECT_EQ(gpt2::hugging_face_name("final_norm.bias"), "transformer.ln_f.bias");
  EXPECT_THROW(gpt2::hugging_face_name("blocks.0.nothing.weight"), InternalError);
}

}  // namespace
}  // namespace colossal::models
