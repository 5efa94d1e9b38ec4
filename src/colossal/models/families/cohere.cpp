// Command R (Cohere, 2024), as in transformers' CohereForCausalLM: parallel attention and MLP,
// layer norms without bias, scaled logits.
#include "colossal/models/cohere_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::cohere {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_cohere_fields(fields);
  if (fields.flag("use_qk_norm", false)) {
    config.query_key_norm = {.kind = nn::QueryKeyNormOptions::Kind::layer,
                             .own_weights = true,
                             .epsilon = config.norm_epsilon};
  }
  config.attention.front().rotary =
      read_rotary(fields, config, {.base = 500000, .interleaved = true});
  return config;
}

}  // namespace

Family family() {
  return {.model_type = "cohere",
          .architecture = "CohereForCausalLM",
          .defaults = {{"vocab_size", 256000},
                       {"hidden_size", 8192},
                       {"intermediate_size", 22528},
                       {"num_hidden_layers", 40},
                       {"num_attention_heads", 64}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = llama_weight_names,
          .presets = {{"command-r-35b",
                       {{"vocab_size", 256000},
                        {"hidden_size", 8192},
                        {"intermediate_size", 22528},
                        {"num_hidden_layers", 40},
                        {"num_attention_heads", 64},
                        {"max_position_embeddings", 131072},
                        {"rope_theta", 8e6}}}}};
}

}  // namespace colossal::models::cohere
