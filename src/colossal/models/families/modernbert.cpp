// ModernBERT (B. Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder",
// 2024), as in transformers' ModernBertForMaskedLM and ModernBertForSequenceClassification. Two of
// three layers have a sliding window, and rotary embeddings with another base.
#include "colossal/models/families/list.h"
#include "colossal/models/rotary_fields.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::modernbert {
namespace {

// rope_parameters has an object for each kind of layer. Older files have the bases in fields of
// their own.
void simplify(nlohmann::json& config) {
  const nlohmann::json given = ConfigFields(config).object("rope_parameters");
  config.erase("rope_parameters");
  if (given.is_null()) return;
  for (const auto& [kind, base] : {std::pair{"full_attention", "global_rope_theta"},
                                   std::pair{"sliding_attention", "local_rope_theta"}}) {
    const nlohmann::json rotary = ConfigFields(given).object(kind);
    if (rotary.is_null()) continue;
    if (rotary.value("rope_type", nlohmann::json("default")) != "default") {
      throw FieldError({"rope_parameters"},
                       fmt::format("rope_parameters.{} = {}", kind, rotary.dump()),
                       "expected rope_type \"default\": other types are not supported");
    }
    if (rotary.contains("rope_theta")) config[base] = rotary["rope_theta"];
  }
}

void read_attention(ConfigFields& fields, TransformerConfig& config) {
  const int64_t pattern = fields.size("global_attn_every_n_layers", 3, kMaximumLayers);
  const std::vector<bool> sliding =
      read_sliding_layers(fields, config, [&](int64_t layer) { return layer % pattern != 0; });
  // A query sees local_attention / 2 positions on each side, and its own.
  const int64_t around = fields.size("local_attention", 128, kMaximumPositions) / 2;
  set_windows(config, sliding, around + 1);
  fields.require_if_given("sliding_window", around);  // transformers' other name of the same
  const double global = fields.number("global_rope_theta", 160000, 1, 1e12);
  const double local = fields.number("local_rope_theta", 10000, 1, 1e12);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    config.attention[layer].rotary = {.base = sliding[layer] ? local : global};
  }
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config;
  config.causal = false;
  config.vocabulary = fields.required_size("vocab_size", kMaximumVocabulary);
  config.hidden = fields.required_size("hidden_size", kMaximumWidth);
  config.inner = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  config.layers = fields.required_size("num_hidden_layers", kMaximumLayers);
  config.heads = config.kv_heads = fields.required_size("num_attention_heads", kMaximumWidth);
  set_head_size(config, "hidden_size", "num_attention_heads");
  config.positions = fields.size("max_position_embeddings", 8192, kMaximumPositions);
  config.activation = read_activation(fields, "hidden_activation", "gelu");
  config.norm = TransformerConfig::Norm::layer;
  config.norm_epsilon = fields.number("norm_eps", 1e-5, 0, 1);
  config.norm_bias = fields.flag("norm_bias", false);
  config.first_attention_norm = false;
  config.embedding_norm = true;
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.mlp_up_bias = config.mlp_down_bias = fields.flag("mlp_bias", false);
  read_attention(fields, config);
  config.embedding_dropout = fields.dropout("embedding_dropout", 0);
  config.attention_dropout = config.attention_output_dropout =
      fields.dropout("attention_dropout", 0);
  config.head_transform = {.bias = fields.flag("classifier_bias", false),
                           .activation = read_activation(fields, "classifier_activation", "gelu"),
                           .norm = true};
  config.head_bias = fields.flag("decoder_bias", true);
  fields.require_if_given("rope_scaling", nullptr);
  fields.require_if_given("head_dim", config.head_size);
  config.tied_head = fields.flag("tie_word_embeddings", true);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  if (fields.number("mlp_dropout", 0, 0, 1) > 0) {
    throw FieldError({"mlp_dropout"},
                     fmt::format("mlp_dropout = {}", fields.json()["mlp_dropout"].dump()),
                     "expected 0: dropout between the products of the MLP is not supported");
  }
  for (const char* field :
       {"classifier_pooling", "classifier_dropout", "initializer_cutoff_factor",
        "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index",
        "reference_compile", "repad_logits_with_grad", "position_embedding_type"}) {
    fields.ignore(field);
  }
  return config;
}

void read_scores(ConfigFields& fields, TransformerConfig& config) {
  fields.require("classifier_pooling", "cls");
  config.scored_position = TransformerConfig::ScoredPosition::first;
  config.score_bias = true;
  config.score_dropout = fields.dropout("classifier_dropout", 0);
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names{.blocks = "model.layers.",
                    .of_a_block = {{"attention_norm", "attn_norm"},
                                   {"query", "attn.Wqkv", stacked_queries(config)},
                                   {"key", "attn.Wqkv", stacked_keys(config)},
                                   {"value", "attn.Wqkv", stacked_values(config)},
                                   {"attention_output", "attn.Wo"},
                                   {"mlp_norm", "mlp_norm"},
                                   {"mlp_gate", "mlp.Wi", stacked_gate(config)},
                                   {"mlp_up", "mlp.Wi", stacked_up(config)},
                                   {"mlp_down", "mlp.Wo"}},
                    .others = {{"token_embedding", "model.embeddings.tok_embeddings"},
                               {"embedding_norm", "model.embeddings.norm"},
                               {"final_norm", "model.final_norm"},
                               {"head_transform", "head.dense"},
                               {"head_norm", "head.norm"}}};
  if (config.scores > 0) {
    names.others.push_back({"score", "classifier"});
    names.unused = {"decoder."};
  } else {
    names.others.push_back({"head", "decoder"});
  }
  return names;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t inner, int64_t heads) {
  return {name,
          {{"vocab_size", 50368},
           {"hidden_size", hidden},
           {"intermediate_size", inner},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads}}};
}

}  // namespace

Family family() {
  return {.model_type = "modernbert",
          .architecture = "ModernBertForMaskedLM",
          .defaults = {{"vocab_size", 50368},
                       {"hidden_size", 768},
                       {"intermediate_size", 1152},
                       {"num_hidden_layers", 22},
                       {"num_attention_heads", 12}},
          .simplify = simplify,
          .read = read,
          .read_scores = read_scores,
          .weights = weight_names,
          .presets = {sized("modernbert-base", 22, 768, 1152, 12),
                      sized("modernbert-large", 28, 1024, 2624, 16)},
          .body = "model."};
}

}  // namespace colossal::models::modernbert
