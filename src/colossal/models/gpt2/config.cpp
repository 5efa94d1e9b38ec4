#include "colossal/models/gpt2/config.h"

#include "colossal/base/error.h"
#include "colossal/models/config_fields.h"

namespace colossal::models::gpt2 {
Config parse_config(const nlohmann::json& json) {
  const ConfigFields fields(json);
  Config config;
  config.vocab_size = fields.required_size("vocab_size", kMaximumVocabulary);
  config.n_positions = fields.required_size("n_positions", kMaximumPositions);
  config.n_embd = fields.required_size("n_embd", kMaximumWidth);
  config.n_layer = fields.required_size("n_layer", kMaximumLayers);
  config.n_head = fields.required_size("n_head", kMaximumWidth);
  config.n_inner = fields.optional_size("n_inner", 0, 4 * kMaximumWidth);
  config.layer_norm_epsilon = fields.number("layer_norm_epsilon", 1e-5, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  config.embd_pdrop = fields.number("embd_pdrop", 0.1, 0, 0.999);
  config.attn_pdrop = fields.number("attn_pdrop", 0.1, 0, 0.999);
  config.resid_pdrop = fields.number("resid_pdrop", 0.1, 0, 0.999);
  config.tie_word_embeddings = fields.flag("tie_word_embeddings", true);
  if (config.n_embd % config.n_head != 0) {
    throw FieldError(
        {"n_head", "n_embd"}, "",
        fmt::format("n_embd = {} is not a multiple of n_head = {}", config.n_embd, config.n_head));
  }
  const std::string activation = fields.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    throw FieldError({"activation_function"},
                     fmt::format("activation_function = \"{}\"", activation),
                     "expected \"gelu_new\" or \"gelu_pytorch_tanh\", which are the same");
  }
  fields.require("scale_attn_weights", true);
  fields.require("scale_attn_by_inverse_layer_idx", false);
  fields.require("reorder_and_upcast_attn", false);
  fields.require("add_cross_attention", false);
  return config;
}

nlohmann::json to_json(const Config& config) {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", config.vocab_size},
          {"n_positions", config.n_positions},
          {"n_ctx", config.n_positions},
          {"n_embd", config.n_embd},
          {"n_layer", config.n_layer},
          {"n_head", config.n_head},
          {"n_inner", config.n_inner > 0 ? nlohmann::json(config.n_inner) : nlohmann::json()},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", config.layer_norm_epsilon},
          {"initializer_range", config.initializer_range},
          {"embd_pdrop", config.embd_pdrop},
          {"attn_pdrop", config.attn_pdrop},
          {"resid_pdrop", config.resid_pdrop},
          {"scale_attn_weights", true},
          {"tie_word_embeddings", config.tie_word_embeddings}};
}

ModelFacts facts(const Config& config) {
  const int64_t h = config.n_embd;
  const int64_t products = config.n_layer * (4 * h * h + 2 * h * config.inner());
  const int64_t others = config.n_layer * (4 * h + 5 * h + config.inner()) + 2 * h;
  const int64_t tables = config.vocab_size * h * (config.tie_word_embeddings ? 1 : 2);
  ModelFacts facts;
  facts.family = "gpt2";
  facts.layers = config.n_layer;
  facts.hidden = h;
  facts.heads = config.n_head;
  facts.kv_heads = config.n_head;
  facts.head_size = h / config.n_head;
  facts.vocabulary = config.vocab_size;
  facts.positions = config.n_positions;
  facts.parameters = products + others + tables + config.n_positions * h;
  facts.product_weights = products + config.vocab_size * h;
  return facts;
}

}  // namespace colossal::models::gpt2
