#include "colossal/models/llama/config.h"

#include <algorithm>
#include <string>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/models/config_fields.h"

namespace colossal::models::llama {
namespace {

constexpr double kLargestBase = 1e12;
constexpr double kLargestFactor = 1e6;

nlohmann::json object_of(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return nlohmann::json::object();
  if (!found->is_object()) {
    throw FieldError({name}, fmt::format("{} = {}", name, found->dump()), "expected an object");
  }
  return *found;
}

// Of with_older_rotary_fields().
ops::RotaryOptions parse_rotary(const nlohmann::json& json, int64_t max_position_embeddings) {
  const nlohmann::json scaling = object_of(json, "rope_scaling");
  ops::RotaryOptions rotary;
  rotary.base = ConfigFields(json).number("rope_theta", 10000, 1, kLargestBase);
  const ConfigFields fields(scaling);
  const std::string type = fields.text("rope_type", fields.text("type", "default"));
  std::vector<std::string> known{"rope_type", "type", "partial_rotary_factor"};
  if (type == "linear" || type == "llama3") known.push_back("factor");
  if (type == "llama3") {
    known.insert(known.end(),
                 {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  } else if (type != "default" && type != "linear") {
    throw FieldError({"rope_type"}, fmt::format("rope_type = \"{}\"", type),
                     "expected \"default\", \"linear\" or \"llama3\"");
  }
  for (const auto& [field, value] : scaling.items()) {
    if (std::count(known.begin(), known.end(), field) == 0) {
      throw FieldError({field}, fmt::format("rope_scaling.{} = {}", field, value.dump()),
                       fmt::format("rope_type \"{}\" has no such field; its fields: {}", type,
                                   fmt::join(known, ", ")));
    }
  }
  fields.require("partial_rotary_factor", 1.0);
  if (type == "default") return rotary;
  rotary.factor = fields.number("factor", 1, 1e-3, kLargestFactor);
  if (type == "linear") return rotary;
  rotary.low_frequency_factor = fields.number("low_freq_factor", 1, 1e-3, kLargestFactor);
  rotary.high_frequency_factor = fields.number("high_freq_factor", 4, 1e-3, kLargestFactor);
  rotary.original_positions = fields.optional_size("original_max_position_embeddings",
                                                   max_position_embeddings, kMaximumPositions);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    throw FieldError({"high_freq_factor", "low_freq_factor"}, "",
                     fmt::format("high_freq_factor = {} is not above low_freq_factor = {}",
                                 rotary.high_frequency_factor, rotary.low_frequency_factor));
  }
  return rotary;
}

nlohmann::json scaling_to_json(const ops::RotaryOptions& rotary) {
  if (rotary.original_positions > 0) {
    return {{"rope_type", "llama3"},
            {"factor", rotary.factor},
            {"low_freq_factor", rotary.low_frequency_factor},
            {"high_freq_factor", rotary.high_frequency_factor},
            {"original_max_position_embeddings", rotary.original_positions}};
  }
  if (rotary.factor != 1) return {{"rope_type", "linear"}, {"factor", rotary.factor}};
  return {};
}

}  // namespace

nlohmann::json with_older_rotary_fields(nlohmann::json json) {
  nlohmann::json rotary = object_of(json, "rope_parameters");
  if (rotary.empty()) rotary = object_of(json, "rope_scaling");
  json.erase("rope_parameters");
  if (rotary.contains("rope_theta")) json["rope_theta"] = rotary["rope_theta"];
  rotary.erase("rope_theta");
  json["rope_scaling"] = rotary.empty() ? nlohmann::json() : rotary;
  return json;
}

Config parse_config(const nlohmann::json& given) {
  const nlohmann::json json = with_older_rotary_fields(given);
  const ConfigFields fields(json);
  Config config;
  config.is_qwen2 = fields.text("model_type", "llama") == "qwen2";
  config.vocab_size = fields.required_size("vocab_size", kMaximumVocabulary);
  config.hidden_size = fields.required_size("hidden_size", kMaximumWidth);
  config.intermediate_size = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  config.num_hidden_layers = fields.required_size("num_hidden_layers", kMaximumLayers);
  config.num_attention_heads = fields.required_size("num_attention_heads", kMaximumWidth);
  config.num_key_value_heads =
      fields.optional_size("num_key_value_heads", config.num_attention_heads, kMaximumWidth);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    throw FieldError(
        {"num_key_value_heads", "num_attention_heads"}, "",
        fmt::format("num_attention_heads = {} is not a multiple of num_key_value_heads = {}",
                    config.num_attention_heads, config.num_key_value_heads));
  }
  // transformers opens no Llama without this, whatever head_dim is.
  const bool has_head_dim = json.contains("head_dim") && !json["head_dim"].is_null();
  if (config.hidden_size % config.num_attention_heads != 0 && !(config.is_qwen2 && has_head_dim)) {
    throw FieldError({"num_attention_heads", "hidden_size"}, "",
                     fmt::format("hidden_size = {} is not a multiple of num_attention_heads = {}",
                                 config.hidden_size, config.num_attention_heads));
  }
  config.head_dim = fields.optional_size(
      "head_dim", config.hidden_size / config.num_attention_heads, kMaximumWidth);
  if (config.num_attention_heads * config.head_dim > kMaximumWidth) {
    throw FieldError({"head_dim", "num_attention_heads"}, "",
                     fmt::format("num_attention_heads = {} x head_dim = {}: at most {} in all",
                                 config.num_attention_heads, config.head_dim, kMaximumWidth));
  }
  if (config.head_dim % 2 != 0) {
    throw FieldError({"head_dim", "hidden_size", "num_attention_heads"},
                     fmt::format("head_dim = {}", config.head_dim),
                     "rotary positions turn pairs of channels, so a head's size must be even");
  }
  config.max_position_embeddings = fields.optional_size(
      "max_position_embeddings", config.is_qwen2 ? 32768 : 2048, kMaximumPositions);
  config.rms_norm_eps = fields.number("rms_norm_eps", 1e-6, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1);
  config.attention_dropout = fields.number("attention_dropout", 0, 0, 0.999);
  config.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  if (config.is_qwen2) {
    fields.require("use_sliding_window", false);
    for (const nlohmann::json& type : json.value("layer_types", nlohmann::json::array())) {
      if (type != "full_attention") {
        throw FieldError({"layer_types"}, fmt::format("layer_types has {}", type.dump()),
                         "expected \"full_attention\" alone");
      }
    }
  } else {
    config.attention_bias = fields.flag("attention_bias", false);
    config.mlp_bias = fields.flag("mlp_bias", false);
  }
  fields.require("hidden_act", "silu");
  fields.require("partial_rotary_factor", 1.0);
  if (fields.has("quantization_config")) {
    throw ConfigError(
        "config.json: quantization_config: weights that were stored quantised are not read; use "
        "the model's folder of F32, BF16 or F16 weights");
  }
  config.rotary = parse_rotary(json, config.max_position_embeddings);
  return config;
}

nlohmann::json to_json(const Config& config) {
  nlohmann::json json{{"vocab_size", config.vocab_size},
                      {"hidden_size", config.hidden_size},
                      {"intermediate_size", config.intermediate_size},
                      {"num_hidden_layers", config.num_hidden_layers},
                      {"num_attention_heads", config.num_attention_heads},
                      {"num_key_value_heads", config.num_key_value_heads},
                      {"head_dim", config.head_dim},
                      {"hidden_act", "silu"},
                      {"max_position_embeddings", config.max_position_embeddings},
                      {"initializer_range", config.initializer_range},
                      {"rms_norm_eps", config.rms_norm_eps},
                      {"attention_dropout", config.attention_dropout},
                      {"tie_word_embeddings", config.tie_word_embeddings},
                      {"rope_theta", config.rotary.base},
                      {"rope_scaling", scaling_to_json(config.rotary)}};
  if (config.is_qwen2) {
    json["model_type"] = "qwen2";
    json["architectures"] = {"Qwen2ForCausalLM"};
    json["use_sliding_window"] = false;
  } else {
    json["model_type"] = "llama";
    json["architectures"] = {"LlamaForCausalLM"};
    json["attention_bias"] = config.attention_bias;
    json["mlp_bias"] = config.mlp_bias;
  }
  return json;
}

ModelFacts facts(const Config& config) {
  const int64_t h = config.hidden_size, inner = config.intermediate_size;
  const int64_t queries = config.num_attention_heads * config.head_dim;
  const int64_t keys = config.num_key_value_heads * config.head_dim;
  const int64_t products =
      config.num_hidden_layers * (h * (2 * queries + 2 * keys) + 3 * h * inner);
  const int64_t biases = (config.qkv_bias() ? queries + 2 * keys : 0) +
                         (config.output_bias() ? h : 0) + (config.mlp_bias ? 2 * inner + h : 0);
  const int64_t others = config.num_hidden_layers * (2 * h + biases) + h;
  ModelFacts facts;
  facts.family = config.is_qwen2 ? "qwen2" : "llama";
  facts.layers = config.num_hidden_layers;
  facts.hidden = h;
  facts.heads = config.num_attention_heads;
  facts.kv_heads = config.num_key_value_heads;
  facts.head_size = config.head_dim;
  facts.vocabulary = config.vocab_size;
  facts.positions = config.max_position_embeddings;
  facts.parameters =
      products + others + config.vocab_size * h * (config.tie_word_embeddings ? 1 : 2);
  facts.product_weights = products + config.vocab_size * h;
  return facts;
}

}  // namespace colossal::models::llama
