// DistilBERT (V. Sanh et al., "DistilBERT, a distilled version of BERT", 2019), as in transformers'
// DistilBertForMaskedLM and DistilBertForSequenceClassification: BERT without token types.
#include "colossal/models/bert_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::distilbert {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config =
      read_gpt2_style_decoder(fields, {.hidden = "dim", .layers = "n_layers", .heads = "n_heads"});
  config.activation = read_activation(fields, "activation", "gelu");
  set_bert_layers(config, config.activation);
  config.inner = fields.required_size("hidden_dim", 4 * kMaximumWidth);
  config.positions = fields.size("max_position_embeddings", 512, kMaximumPositions);
  config.norm_epsilon = 1e-12;
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  config.embedding_dropout = config.mlp_dropout = fields.dropout("dropout", 0.1);
  config.attention_dropout = fields.dropout("attention_dropout", 0.1);
  config.tied_head = fields.flag("tie_word_embeddings", true);
  fields.require("sinusoidal_pos_embds", false);  // else transformers does not train positions
  fields.ignore("tie_weights_");
  fields.ignore("qa_dropout");
  fields.ignore("seq_classif_dropout");
  return config;
}

void read_scores(ConfigFields& fields, TransformerConfig& config) {
  set_bert_scores(config, ops::Activation::relu, fields.dropout("seq_classif_dropout", 0.2));
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names{.blocks = "distilbert.transformer.layer.",
                    .of_a_block = {{"query", "attention.q_lin"},
                                   {"key", "attention.k_lin"},
                                   {"value", "attention.v_lin"},
                                   {"attention_output", "attention.out_lin"},
                                   {"attention_output_norm", "sa_layer_norm"},
                                   {"mlp_up", "ffn.lin1"},
                                   {"mlp_down", "ffn.lin2"},
                                   {"mlp_output_norm", "output_layer_norm"}},
                    .others = {{"token_embedding", "distilbert.embeddings.word_embeddings"},
                               {"position_embedding", "distilbert.embeddings.position_embeddings"},
                               {"embedding_norm", "distilbert.embeddings.LayerNorm"}},
                    .computed = {"embeddings.position_ids"}};
  if (config.scores > 0) {
    names.others.insert(names.others.end(),
                        {{"head_transform", "pre_classifier"}, {"score", "classifier"}});
    names.unused = {"vocab_"};
    return names;
  }
  names.others.insert(names.others.end(), {{"head_transform", "vocab_transform"},
                                           {"head_norm", "vocab_layer_norm"},
                                           {"head", "vocab_projector"}});
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "distilbert",
          .architecture = "DistilBertForMaskedLM",
          .defaults = {{"vocab_size", 30522},
                       {"dim", 768},
                       {"hidden_dim", 3072},
                       {"n_layers", 6},
                       {"n_heads", 12}},
          .other_names = {{"hidden_size", "dim"},
                          {"num_attention_heads", "n_heads"},
                          {"num_hidden_layers", "n_layers"}},
          .read = read,
          .read_scores = read_scores,
          .weights = weight_names,
          .presets = {{"distilbert-base",
                       {{"vocab_size", 30522},
                        {"dim", 768},
                        {"hidden_dim", 3072},
                        {"n_layers", 6},
                        {"n_heads", 12},
                        {"dropout", 0.0},
                        {"attention_dropout", 0.0}}}},
          .body = "distilbert."};
}

}  // namespace colossal::models::distilbert
