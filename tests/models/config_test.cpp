#include <gmock/gmock.h>

#include <fstream>

#include "colossal/base/error.h"
#include "colossal/models/config_fields.h"
#include "colossal/models/families.h"
#include "tests/support/temporary_directory.h"

namespace colossal::models {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A folder with this config.json.
class ModelFolder {
 public:
  explicit ModelFolder(const json& config) {
    std::ofstream(folder_.path() / "config.json") << config;
  }
  ModelSpecification resolve(const json& overrides = json::object()) const {
    return resolve_model({.path = folder_.path().string(), .overrides = overrides});
  }

 private:
  test::TemporaryDirectory folder_;
};

TransformerConfig parse(const json& config) {
  return ModelFolder(config).resolve().transformer;
}

std::string refusal(const json& config) {
  try {
    parse(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

json valid() {
  return {{"model_type", "gpt2"}, {"vocab_size", 97}, {"n_positions", 16},
          {"n_embd", 36},         {"n_layer", 2},     {"n_head", 3}};
}

TEST(Gpt2Config, RoundTripsThroughJson) {
  json config = valid();
  config["n_inner"] = 52;
  config["resid_pdrop"] = 0.25;
  const ModelSpecification parsed = ModelFolder(config).resolve();
  EXPECT_EQ(parsed.transformer.inner, 52);
  EXPECT_EQ(parsed.transformer.mlp_dropout, 0.25);
  EXPECT_EQ(parse(parsed.config), parsed.transformer);
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
      {{{"activation_function", "swish9"}}, "activation_function = \"swish9\": expected one of: "},
      {{{"add_cross_attention", true}}, "add_cross_attention = true"},
  };
  for (const auto& [change, message] : cases) {
    json config = valid();
    config.update(change);
    EXPECT_THAT(refusal(config), HasSubstr(message));
  }
  EXPECT_EQ(refusal(valid()), "accepted");
}

TEST(Gpt2Facts, CountsParametersOfThePublishedSize) {
  const ModelFacts facts =
      resolve_model({.preset = "gpt2-124m", .overrides = {{"vocab_size", 50257}}}).facts;
  EXPECT_EQ(facts.parameters,
            124439808);  // transformers' GPT2LMHeadModel(GPT2Config()).num_parameters()
  EXPECT_EQ(facts.flops_per_token(512),
            6.0 * (12.0 * 12 * 768 * 768 + 50257.0 * 768) + 12.0 * 12 * 768 * 512);
}

// num_parameters() of transformers' classes, and with a head of its own as published.
TEST(EncoderDecoderFacts, CountParametersOfPublishedSizes) {
  EXPECT_EQ(resolve_model({.preset = "bart-large"}).facts.parameters, 406291456);
  EXPECT_EQ(resolve_model({.preset = "flan-t5-small"}).facts.parameters, 60511616 + 32128 * 512);
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
  EXPECT_THAT(request_refusal({.preset = "llama-tiny", .overrides = {{"n_embd", 64}}}),
              HasSubstr("nearest: model.hidden_size"));
  EXPECT_THAT(request_refusal({.preset = "gpt2-tiny", .overrides = {{"hidden_act", "relu"}}}),
              HasSubstr("nearest: model.activation_function"));
  EXPECT_THAT(
      request_refusal({.preset = "gpt2-tiny", .overrides = {{"model_type", "no_such_model"}}}),
      HasSubstr("unknown family"));
}

TEST(ResolveModel, OverridesAndDropoutApply) {
  const ModelSpecification made =
      resolve_model({.preset = "gpt2-tiny", .overrides = {{"n_layer", 2}}, .dropout = 0.1});
  EXPECT_EQ(made.facts.layers, 2);
  EXPECT_EQ(made.config["attn_pdrop"], 0.1);
}

json valid_llama() {
  return {{"model_type", "llama"},    {"vocab_size", 97},       {"hidden_size", 36},
          {"intermediate_size", 52},  {"num_hidden_layers", 2}, {"num_attention_heads", 6},
          {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5}};
}

// A folder that is saved says what the preset says.
TEST(Presets, RoundTripThroughConfigJson) {
  for (const std::string& name : preset_names()) {
    const ModelSpecification preset = resolve_model({.preset = name});
    const ModelSpecification saved = ModelFolder(preset.config).resolve();
    EXPECT_EQ(saved.transformer, preset.transformer) << name;
    EXPECT_EQ(saved.config, preset.config) << name;
  }
}

ops::RotaryOptions rotary_of(const json& config) {
  return parse(config).attention.front().rotary;
}

TEST(LlamaConfig, ReadsRotaryParametersOldAndNew) {
  const json scaling{{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.5},
                     {"high_freq_factor", 4.5},
                     {"original_max_position_embeddings", 8192}};
  const ops::RotaryOptions expected{.base = 5e5,
                                    .scaling = ops::RotaryOptions::Scaling::llama3,
                                    .factor = 8,
                                    .original_positions = 8192,
                                    .low_frequency_factor = 1.5,
                                    .high_frequency_factor = 4.5};
  json older = valid_llama(), newer = valid_llama();
  older["rope_theta"] = 5e5;
  older["rope_scaling"] = scaling;
  newer["rope_parameters"] = scaling;
  newer["rope_parameters"]["rope_theta"] = 5e5;
  EXPECT_EQ(rotary_of(older), expected);
  EXPECT_EQ(rotary_of(newer), expected);
  newer["rope_theta"] = 1e4;  // transformers looks into the object first
  EXPECT_EQ(rotary_of(newer), expected);
  older["rope_scaling"]["rope_theta"] = 1e6;
  EXPECT_EQ(rotary_of(older).base, 1e6);
}

TEST(LlamaConfig, EveryFieldIsCheckedByName) {
  const std::vector<std::pair<json, std::string>> cases{
      {{{"hidden_size", nullptr}}, "\"hidden_size\" is missing"},
      {{{"num_key_value_heads", 4}}, "is not a multiple of num_key_value_heads = 4"},
      {{{"num_attention_heads", 8}}, "hidden_size = 36 is not a multiple"},
      {{{"head_dim", 5}}, "head_dim = 5"},
      {{{"hidden_size", 40}, {"head_dim", 8}}, "hidden_size = 40 is not a multiple"},
      {{{"head_dim", 1 << 20}}, "num_attention_heads = 6 x head_dim = 1048576: at most 1048576"},
      {{{"initializer_range", 2.0}}, "initializer_range = 2.0"},
      {{{"model_type", "phi3"}, {"partial_rotary_factor", 0.5}}, "must turn, not 3"},
      {{{"partial_rotary_factor", 0.5}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}},
       "partial_rotary_factor = 0.5"},
      {{{"is_causal", false}}, "is_causal = false"},
      {{{"quantization_config", {{"bits", 4}}}},
       "quantization_config: quant_method = null: this quantization format is not supported, only "
       "\"gptq\""},
      {{{"quantization_config", {{"quant_method", "gptq"}, {"bits", 3}, {"group_size", 128}}}},
       "bits = 3: this quantization format is not supported, gptq supports 4 or 8 bits"},
      {{{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 0}}}},
       "group_size = 0"},
      {{{"quantization_config",
         {{"quant_method", "gptq"}, {"bits", 4}, {"checkpoint_format", "marlin"}}}},
       "checkpoint_format = \"marlin\""},
      {{{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}, {"version", "gemv"}}}},
       "version = \"gemv\": this quantization format is not supported, only \"gemm\""},
      {{{"quantization_config", {{"quant_method", "compressed-tensors"}, {"format", "marlin-24"}}}},
       "format = \"marlin-24\""},
      {{{"quantization_config",
         {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups", {{"g", {{"weights", {{"num_bits", 4}, {"actorder", "group"}}}}}}}}}},
       "actorder = \"group\""},
      {{{"quantization_config",
         {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups", {{"g", {{"weights", {{"num_bits", 2}}}}}}}}}},
       "\"int\" of 4 or 8 bits"},
      {{{"quantization_config", {{"quant_method", "fp8"}, {"fmt", "e5m2"}}}}, "fmt = \"e5m2\""},
      {{{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128}}}}},
       "weight_block_size = [128]"},
      {{{"rope_scaling", {{"factor", 2.0}}}}, "rope_scaling.factor = 2.0: rope_type \"default\""},
      {{{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}, "full_attention"},
      {{{"model_type", "qwen2"}, {"layer_types", {"full_attention", "sliding"}}},
       "layer_types = [\"full_attention\",\"sliding\"]: expected a list of 2"},
      {{{"hidden_act", "gelu9"}}, "hidden_act = \"gelu9\""},
      {{{"rope_scaling", {{"rope_type", "yarn9"}}}}, "rope_type = \"yarn9\""},
      {{{"rope_scaling", "linear"}}, "rope_scaling = \"linear\": expected an object"},
      {{{"rope_theta", -1}}, "rope_theta = -1"},
      {{{"rope_scaling",
         {{"rope_type", "llama3"}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}}}},
       "high_freq_factor = 4"},
  };
  for (const auto& [change, message] : cases) {
    json config = valid_llama();
    config.update(change);
    EXPECT_THAT(refusal(config), HasSubstr(message));
  }
  EXPECT_EQ(refusal(valid_llama()), "accepted");
}

TEST(LlamaConfig, ARunsSettingsWinAndWhatFollowsFromThemFollows) {
  json config = valid_llama();
  config.erase("num_key_value_heads");
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
  const ModelFolder folder(config);
  const auto rotary = [&](const json& overrides) {
    return folder.resolve(overrides).transformer.attention.front().rotary;
  };
  EXPECT_EQ(rotary({{"rope_theta", 1e4}}), (ops::RotaryOptions{.base = 1e4, .factor = 2}));
  EXPECT_EQ(rotary({{"rope_scaling", nullptr}}), (ops::RotaryOptions{.base = 5e5}));
  const TransformerConfig wider = folder.resolve({{"num_attention_heads", 18}}).transformer;
  EXPECT_EQ(wider.kv_heads, 18);
  EXPECT_EQ(wider.head_size, 2);
  const ModelSpecification preset =
      resolve_model({.preset = "llama-tiny", .overrides = {{"hidden_size", 512}}});
  EXPECT_EQ(preset.facts.head_size, 128);
  EXPECT_EQ(
      resolve_model({.preset = "llama-tiny", .overrides = {{"head_dim", 32}}}).facts.head_size, 32);
}

// A field that is ignored is passed on where it is, and not made where it is not.
TEST(ConfigFields, WhatIsIgnoredIsPassedOn) {
  json config = valid();
  EXPECT_FALSE(ModelFolder(config).resolve().config.contains("summary_type"));
  config["summary_type"] = "last";
  const ModelSpecification with = ModelFolder(config).resolve();
  EXPECT_EQ(with.other_fields["summary_type"], "last");
  EXPECT_FALSE(with.config.contains("summary_type"));
}

// What no class of transformers reads is passed on.
TEST(ConfigFields, WhatNothingReadsIsPassedOn) {
  json config = valid_llama();
  config["use_cache"] = false;
  config["transformers_version"] = "4.9";
  config["eos_token_id"] = {1, 2};
  const json others = ModelFolder(config).resolve().other_fields;
  EXPECT_EQ(others["use_cache"], false);
  EXPECT_EQ(others["transformers_version"], "4.9");
  EXPECT_EQ(others["eos_token_id"], (json{1, 2}));
  config["residual_multiplier"] = 0.5;
  EXPECT_EQ(ModelFolder(config).resolve().other_fields["residual_multiplier"], 0.5);
}

TEST(ConfigFields, UnknownFieldsAreThoseOfWhichNothingIsKnown) {
  const json config{
      {"use_cache", true}, {"mine", 1}, {"empty", nullptr}, {"read", 2}, {"of_no_use", 3}};
  ConfigFields fields(config, {{"missing", 7}});
  EXPECT_EQ(fields.size("read", 1, 9), 2);
  EXPECT_EQ(fields.size("missing", 1, 9), 7);
  fields.ignore("of_no_use");
  fields.add_unknown("rope_scaling.finetuned");
  EXPECT_EQ(fields.unknown_fields(), (std::vector<std::string>{"rope_scaling.finetuned", "mine"}));
}

// A null field has none of the defaults that a missing one has.
TEST(ConfigFields, MissingAndNullDiffer) {
  const json gemma2{{"model_type", "gemma2"}};
  json without = gemma2;
  without["final_logit_softcapping"] = nullptr;
  EXPECT_EQ(parse(gemma2).logit_soft_cap, 30);
  EXPECT_EQ(parse(without).logit_soft_cap, 0);
}

TEST(ConfigFields, OtherNamesOfFieldsReplaceTheirs) {
  json config = valid();
  config["hidden_size"] = 30;
  config["num_hidden_layers"] = 4;
  const TransformerConfig read = parse(config);
  EXPECT_EQ(read.hidden, 30);
  EXPECT_EQ(read.layers, 4);
}

TEST(LlamaConfig, RopeScalingReplacesRopeParameters) {
  json config = valid_llama();
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(rotary_of(config), (ops::RotaryOptions{.base = 1e4, .factor = 4}));
  config["rope_theta"] = 5e5;
  EXPECT_EQ(rotary_of(config), (ops::RotaryOptions{.base = 5e5, .factor = 4}));
}

TEST(LlamaFacts, CountParametersOfThePublishedSizes) {
  const auto parameters = [](const char* name) {
    return resolve_model({.preset = name}).facts.parameters;
  };
  // As Hugging Face's model cards count them.
  EXPECT_EQ(parameters("llama2-7b"), 6738415616);
  EXPECT_EQ(parameters("llama3.1-8b"), 8030261248);
  EXPECT_EQ(parameters("llama3.1-70b"), 70553706496);
  EXPECT_EQ(parameters("llama3.1-405b"), 405853388800);
  EXPECT_EQ(parameters("llama3.2-1b"), 1235814400);
  EXPECT_EQ(parameters("qwen2-0.5b"), 494032768);
  EXPECT_EQ(parameters("qwen2-7b"), 7615616512);
}

TEST(SliceInFiles, IsNamedAsTransformersNamesIt) {
  const ModelSpecification gpt2 = resolve_model({.preset = "gpt2-tiny"});
  const ModelSpecification llama = resolve_model({.preset = "llama-tiny"});
  const auto name = [](const ModelSpecification& model, const std::string& parameter) {
    return slice_in_files(model, parameter).name;
  };
  EXPECT_EQ(name(gpt2, "token_embedding.weight"), "transformer.wte.weight");
  EXPECT_EQ(name(gpt2, "blocks.11.mlp_down.bias"), "transformer.h.11.mlp.c_proj.bias");
  EXPECT_EQ(name(gpt2, "final_norm.bias"), "transformer.ln_f.bias");
  EXPECT_THROW(name(gpt2, "blocks.0.nothing.weight"), InternalError);
  EXPECT_EQ(name(llama, "blocks.3.key.weight"), "model.layers.3.self_attn.k_proj.weight");
  EXPECT_EQ(name(llama, "final_norm.weight"), "model.norm.weight");
}

}  // namespace
}  // namespace colossal::models
