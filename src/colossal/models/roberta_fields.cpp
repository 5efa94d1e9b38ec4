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
                    .of_a_block = bert_block_names(),
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

std::vector<Preset> roberta_presets(const std::string& name, int64_t vocabulary) {
  const auto sized = [&](const char* size, int64_t layers, int64_t hidden, int64_t heads) {
    return Preset{name + size,
                  {{"vocab_size", vocabulary},
                   {"hidden_size", hidden},
                   {"intermediate_size", 4 * hidden},
                   {"num_hidden_layers", layers},
                   {"num_attention_heads", heads},
                   {"max_position_embeddings", 514},
                   {"type_vocab_size", 1},
                   {"layer_norm_eps", 1e-5},
                   {"hidden_dropout_prob", 0.0},
                   {"attention_probs_dropout_prob", 0.0}}};
  };
  return {sized("-base", 12, 768, 12), sized("-large", 24, 1024, 16)};
}

}  // namespace colossal::models
