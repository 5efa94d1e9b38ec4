// RoBERTa (Y. Liu et al., "RoBERTa: A Robustly Optimized BERT Pretraining Approach", 2019), as in
// transformers' RobertaForMaskedLM and RobertaForSequenceClassification.
#include "colossal/models/families/list.h"
#include "colossal/models/roberta_fields.h"

namespace colossal::models::roberta {

Family family() {
  return {.model_type = "roberta",
          .architecture = "RobertaForMaskedLM",
          .defaults = {{"vocab_size", 50265},
                       {"hidden_size", 768},
                       {"intermediate_size", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12}},
          .read = read_roberta_fields,
          .read_scores = read_roberta_scores,
          .weights = roberta_weight_names,
          .presets = roberta_presets("roberta", 50265),
          .body = "roberta."};
}

}  // namespace colossal::models::roberta
