// RoBERTa (Y. Liu et al., "RoBERTa: A Robustly Optimized BERT Pretraining Approach", 2019), as in
// transformers' RobertaForMaskedLM and RobertaForSequenceClassification.
#include "colossal/models/families/list.h"
#include "colossal/models/roberta_fields.h"

namespace colossal::models::roberta {
namespace {

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {name,
          {{"vocab_size", 50265},
           {"hidden_size", hidden},
           {"intermediate_size", 4 * hidden},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"max_position_embeddings", 514},
           {"type_vocab_size", 1},
           {"layer_norm_eps", 1e-5},
           {"hidden_dropout_prob", 0.0},
           {"attention_probs_dropout_prob", 0.0}}};
}

}  // namespace

Family family() {
  return {.model_type = "roberta",
          .architecture = "RobertaForMaskedLM",
          .read = read_roberta_fields,
          .read_scores = read_roberta_scores,
          .weights = roberta_weight_names,
          .presets = {sized("roberta-base", 12, 768, 12), sized("roberta-large", 24, 1024, 16)},
          .body = "roberta."};
}

}  // namespace colossal::models::roberta
