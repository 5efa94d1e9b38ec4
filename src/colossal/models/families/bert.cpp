// BERT (J. Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018), as in
// transformers' BertForMaskedLM and BertForSequenceClassification. Next-sentence prediction is not
// part of the model.
#include "colossal/models/bert_fields.h"
#include "colossal/models/families/list.h"

namespace colossal::models::bert {
namespace {

TransformerConfig read(ConfigFields& fields) {
  return read_bert_fields(fields, 2);
}

void read_scores(ConfigFields& fields, TransformerConfig& config) {
  set_bert_scores(config, ops::Activation::tanh, read_classifier_dropout(fields));
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names{.blocks = "bert.encoder.layer.",
                    .of_a_block = bert_block_names(),
                    .others = {{"token_embedding", "bert.embeddings.word_embeddings"},
                               {"position_embedding", "bert.embeddings.position_embeddings"},
                               {"token_type_embedding", "bert.embeddings.token_type_embeddings"},
                               {"embedding_norm", "bert.embeddings.LayerNorm"}},
                    .computed = {"embeddings.position_ids"}};
  if (config.scores > 0) {
    names.others.insert(names.others.end(),
                        {{"head_transform", "bert.pooler.dense"}, {"score", "classifier"}});
    names.unused = {"cls."};
    return names;
  }
  names.others.insert(
      names.others.end(),
      {{"head_transform", "cls.predictions.transform.dense"},
       {"head_norm", "cls.predictions.transform.LayerNorm"},
       {"head", "cls.predictions.decoder"},
       {"head.bias", config.tied_head ? "cls.predictions.bias" : "cls.predictions.decoder.bias"}});
  names.unused = {"bert.pooler.", "cls.seq_relationship."};
  if (config.tied_head) {
    names.copies = {{"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  } else {
    names.unused.emplace_back("cls.predictions.bias");
  }
  return names;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {name,
          {{"vocab_size", 30522},
           {"hidden_size", hidden},
           {"intermediate_size", 4 * hidden},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"hidden_dropout_prob", 0.0},
           {"attention_probs_dropout_prob", 0.0}}};
}

}  // namespace

Family family() {
  return {.model_type = "bert",
          .architecture = "BertForMaskedLM",
          .defaults = {{"vocab_size", 30522},
                       {"hidden_size", 768},
                       {"intermediate_size", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12}},
          .read = read,
          .read_scores = read_scores,
          .weights = weight_names,
          .presets = {sized("bert-tiny", 2, 128, 2), sized("bert-base", 12, 768, 12),
                      sized("bert-large", 24, 1024, 16)},
          .body = "bert."};
}

}  // namespace colossal::models::bert
