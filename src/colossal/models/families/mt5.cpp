// mT5 (L. Xue et al., "mT5: A Massively Multilingual Pre-trained Text-to-Text Transformer", 2021),
// as in transformers' MT5ForConditionalGeneration.
#include "colossal/models/families/list.h"
#include "colossal/models/t5_fields.h"

namespace colossal::models::mt5 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  return read_t5_fields(fields, "gated-gelu");
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t inner) {
  return {name,
          {{"vocab_size", 250112},
           {"d_model", hidden},
           {"d_kv", 64},
           {"d_ff", inner},
           {"num_layers", layers},
           {"num_heads", heads},
           {"tie_word_embeddings", false},
           {"dropout_rate", 0.0}}};
}

}  // namespace

Family family() {
  return {.model_type = "mt5",
          .architecture = "MT5ForConditionalGeneration",
          .defaults = {{"vocab_size", 250112},
                       {"d_model", 512},
                       {"num_layers", 8},
                       {"num_heads", 6},
                       {"d_ff", 1024}},
          .other_names = {{"hidden_size", "d_model"},
                          {"num_attention_heads", "num_heads"},
                          {"num_hidden_layers", "num_layers"},
                          {"head_dim", "d_kv"}},
          .read = read,
          .weights = t5_weight_names,
          .presets = {sized("mt5-small", 8, 512, 6, 1024), sized("mt5-base", 12, 768, 12, 2048),
                      sized("mt5-large", 24, 1024, 16, 2816), sized("mt5-xl", 24, 2048, 32, 5120),
                      sized("mt5-xxl", 24, 4096, 64, 10240)}};
}

}  // namespace colossal::models::mt5
