#include "colossal/models/bert_fields.h"

#include "colossal/models/transformer_fields.h"

namespace colossal::models {

void set_bert_layers(TransformerConfig& config, ops::Activation activation) {
  config.causal = false;
  config.learned_positions = config.embedding_norm = true;
  config.norm = TransformerConfig::Norm::layer;
  config.norm_place = TransformerConfig::NormPlace::residual;
  config.final_norm = false;
  config.qkv_bias = config.attention_output_bias = true;
  config.gated = false;
  config.mlp_up_bias = config.mlp_down_bias = true;
  config.head_transform = {.bias = true, .activation = activation, .norm = true};
  config.head_bias = true;
}

TransformerConfig read_bert_fields(ConfigFields& fields, int64_t token_types) {
  TransformerConfig config = read_gpt2_style_decoder(
      fields,
      {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads"});
  config.activation = read_activation(fields, "hidden_act", "gelu");
  set_bert_layers(config, config.activation);
  config.inner = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  config.positions = fields.size("max_position_embeddings", 512, kMaximumPositions);
  config.token_types = fields.size("type_vocab_size", token_types, kMaximumVocabulary);
  config.norm_epsilon = fields.number("layer_norm_eps", 1e-12, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  config.embedding_dropout = config.attention_output_dropout = config.mlp_dropout =
      fields.dropout("hidden_dropout_prob", 0.1);
  config.attention_dropout = fields.dropout("attention_probs_dropout_prob", 0.1);
  config.tied_head = fields.flag("tie_word_embeddings", true);
  fields.require("position_embedding_type", "absolute");
  fields.require("is_decoder", false);
  fields.require("add_cross_attention", false);
  fields.ignore("classifier_dropout");  // read_classifier_dropout() reads it, if it matters
  for (const char* field : {"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                            "pooler_size_per_head", "pooler_type", "directionality"}) {
    fields.ignore(field);  // of BERT's first release
  }
  return config;
}

void set_bert_scores(TransformerConfig& config, ops::Activation activation, double dropout) {
  config.head_transform = {.bias = true, .activation = activation, .norm = false};
  config.scored_position = TransformerConfig::ScoredPosition::first;
  config.score_bias = true;
  config.score_dropout = dropout;
}

double read_classifier_dropout(ConfigFields& fields) {
  const double hidden = fields.dropout("hidden_dropout_prob", 0.1);
  return fields.has("classifier_dropout") ? fields.dropout("classifier_dropout", hidden) : hidden;
}

std::vector<LayerMapping> bert_block_names() {
  return {{"query", "attention.self.query"},
          {"key", "attention.self.key"},
          {"value", "attention.self.value"},
          {"attention_output", "attention.output.dense"},
          {"attention_output_norm", "attention.output.LayerNorm"},
          {"mlp_up", "intermediate.dense"},
          {"mlp_down", "output.dense"},
          {"mlp_output_norm", "output.LayerNorm"}};
}

}  // namespace colossal::models
