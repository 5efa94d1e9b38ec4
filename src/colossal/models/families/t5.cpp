// T5 (C. Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
// Transformer", 2020), its version 1.1, FLAN-T5 and ByT5, as in transformers'
// T5ForConditionalGeneration.
#include <cmath>

#include "colossal/models/families/list.h"
#include "colossal/models/t5_fields.h"

namespace colossal::models::t5 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_t5_fields(fields, "relu");
  if (fields.flag("scale_decoder_outputs", config.tied_head)) {
    config.logit_scale = 1 / std::sqrt(static_cast<double>(config.hidden));
  }
  return config;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t inner) {
  return {name,
          {{"vocab_size", 32128},
           {"d_model", hidden},
           {"d_kv", 64},
           {"d_ff", inner},
           {"num_layers", layers},
           {"num_heads", heads},
           {"feed_forward_proj", "gated-gelu"},
           {"tie_word_embeddings", false},
           {"dropout_rate", 0.0}}};
}

}  // namespace

Family family() {
  return {.model_type = "t5",
          .architecture = "T5ForConditionalGeneration",
          .defaults = {{"vocab_size", 32128},
                       {"d_model", 512},
                       {"num_layers", 6},
                       {"num_heads", 8},
                       {"d_ff", 2048}},
          .other_names = {{"hidden_size", "d_model"},
                          {"num_attention_heads", "num_heads"},
                          {"num_hidden_layers", "num_layers"},
                          {"head_dim", "d_kv"}},
          .read = read,
          .weights = t5_weight_names,
          .presets = {
              sized("t5-tiny", 2, 128, 2, 256), sized("flan-t5-small", 8, 512, 6, 1024),
              sized("flan-t5-base", 12, 768, 12, 2048), sized("flan-t5-large", 24, 1024, 16, 2816),
              sized("flan-t5-xl", 24, 2048, 32, 5120), sized("flan-t5-xxl", 24, 4096, 64, 10240)}};
}

}  // namespace colossal::models::t5
