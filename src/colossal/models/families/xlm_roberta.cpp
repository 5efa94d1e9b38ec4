// XLM-RoBERTa (A. Conneau et al., "Unsupervised Cross-lingual Representation Learning at Scale",
// 2019), as in transformers' XLMRobertaForMaskedLM: RoBERTa with a multilingual vocabulary.
#include "colossal/models/families/list.h"
#include "colossal/models/roberta_fields.h"

namespace colossal::models::xlm_roberta {

Family family() {
  return {.model_type = "xlm-roberta",
          .architecture = "XLMRobertaForMaskedLM",
          .defaults = {{"vocab_size", 30522},
                       {"hidden_size", 768},
                       {"intermediate_size", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12}},
          .read = read_roberta_fields,
          .read_scores = read_roberta_scores,
          .weights = roberta_weight_names,
          .presets = roberta_presets("xlm-roberta", 250002),
          .body = "roberta."};
}

}  // namespace colossal::models::xlm_roberta
