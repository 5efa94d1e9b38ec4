#include "colossal/models/dinov2_fields.h"

#include "colossal/models/transformer_fields.h"
#include "colossal/models/vision_fields.h"

namespace colossal::models {

TransformerConfig read_dinov2_fields(ConfigFields& fields, std::vector<nn::PrefixTokens> prefix,
                                     int64_t patch) {
  TransformerConfig config =
      read_vision_fields(fields, std::move(prefix), {.patch = patch, .norm_epsilon = 1e-6});
  config.feature_scale = fields.number("layerscale_value", 1, -1e6, 1e6);
  const int64_t inner = config.hidden * fields.size("mlp_ratio", 4, 64);
  config.inner = inner;
  if (fields.flag("use_swiglu_ffn", false)) {
    config.inner = (inner * 2 / 3 + 7) / 8 * 8;
    config.gated = true;
    config.activation = ops::Activation::silu;
  }
  fields.require("drop_path_rate", 0.0);
  for (const char* field :
       {"out_features", "out_indices", "stage_names", "apply_layernorm", "reshape_hidden_states"}) {
    fields.ignore(field);  // of the class that returns feature maps
  }
  return config;
}

void read_dinov2_scores(ConfigFields&, TransformerConfig& config) {
  set_scores(config, TransformerConfig::ScoredPosition::first_and_patches);
}

WeightNames dinov2_names(std::string_view body, const TransformerConfig& config) {
  WeightNames names = vision_names(body);
  names.of_a_block.insert(names.of_a_block.end(),
                          {{"attention_norm", "norm1"},
                           {"attention_scale.weight", "layer_scale1.lambda1"},
                           {"mlp_norm", "norm2"},
                           {"mlp_scale.weight", "layer_scale2.lambda1"}});
  if (config.gated) {
    names.of_a_block.insert(names.of_a_block.end(),
                            {{"mlp_gate", "mlp.weights_in", stacked_gate(config)},
                             {"mlp_up", "mlp.weights_in", stacked_up(config)},
                             {"mlp_down", "mlp.weights_out"}});
  } else {
    names.of_a_block.insert(names.of_a_block.end(),
                            {{"mlp_up", "mlp.fc1"}, {"mlp_down", "mlp.fc2"}});
  }
  names.others.insert(names.others.end(), {{.ours = "score.weight",
                                            .theirs = "classifier.weight",
                                            .columns = {0, config.hidden},
                                            .num_columns = 2 * config.hidden},
                                           {"score.bias", "classifier.bias"},
                                           {.ours = "score_of_patches.weight",
                                            .theirs = "classifier.weight",
                                            .columns = {config.hidden, 2 * config.hidden},
                                            .num_columns = 2 * config.hidden}});
  return names;
}

}  // namespace colossal::models
