#include "colossal/models/roberta_fields.h"

#include "colossal/models/bert_fields.h"

namespace colossal::models {

TransformerConfig read_roberta_fields(ConfigFields& fields) {
  TransformerConfig config = read_bert_fields(fields, 2);
  config.head_transform->activation = ops::Activation::gelu;  // whatever hidden_act is
  // Position 0 has the row after that of padding; the table has max_position_embeddings rows.
  config.position_offset = fields.count("pad_token_id", 1, kMaximumPositions - 1) + 1;
  config.positions -= config.position_offset;
  if (config.positions < 1) {
    throw FieldError(
        {"max_position_embeddings", "pad_token_id"}, "",
        fmt::format("max_position_embeddings = {} leaves no position after "
                    "pad_token_id = {}",
                    config.positions + config.position_offset, config.position_offset - 1));
  }
  return config;
}

void read_roberta_scores(ConfigFields& fields, TransformerConfig& config) {
  set_bert_scores(config, ops::Activation::tanh, read_classifier_dropout(fields));
  config.head_transform_dropout = config.score_dropout;
}

WeightNames roberta_weight_names(const TransformerConfig& config) {
  WeightNames names{.blocks = "roberta.encoder.layer.",
                    .of_a_block = {{"query", "attention.self.query"},
                                   {"key", "attention.self.key"},
                                   {"value", "attention.self.value"},
                                   {"attention_output", "attention.output.dense"},
                                   {"attention_output_norm", "attention.output.LayerNorm"},
                                   {"mlp_up", "intermediate.dense"},
                                   {"mlp_down", "output.dense"},
                                   {"mlp_output_norm", "output.LayerNorm"}},
                    .others = {{"token_embedding", "roberta.embeddings.word_embeddings"},
                               {"position_embedding", "roberta.embeddings.position_embeddings"},
                               {"token_type_embedding", "roberta.embeddings.token_type_embeddings"},
                               {"embedding_norm", "roberta.embeddings.LayerNorm"}},
                    .computed = {"embeddings.position_ids"}};
  if (config.scores > 0) {
    names.others.insert(names.others.end(),
                        {{"head_transform", "classifier.dense"}, {"score", "classifier.out_proj"}});
    names.unused = {"roberta.pooler.", "lm_head."};
    return names;
  }
  names.others.insert(names.others.end(),
                      {{"head_transform", "lm_head.dense"},
                       {"head_norm", "lm_head.layer_norm"},
                       {"head", "lm_head.decoder"},
                       {"head.bias", config.tied_head ? "lm_head.bias" : "lm_head.decoder.bias"}});
  names.unused = {"roberta.pooler."};
  if (config.tied_head) {
    names.copies = {{"lm_head.decoder.bias", "lm_head.bias"}};
  } else {
    names.unused.emplace_back("lm_head.bias");
  }
  return names;
}

}  // namespace colossal::models
