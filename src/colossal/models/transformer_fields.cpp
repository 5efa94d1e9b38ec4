#include "colossal/models/transformer_fields.h"

namespace colossal::models {

ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback) {
  const std::string found = fields.text(name, fallback);
  if (const auto activation = ops::activation_of(found)) return *activation;
  throw FieldError({name}, fmt::format("{} = \"{}\"", name, found),
                   fmt::format("expected one of: {}", fmt::join(ops::activation_names(), ", ")));
}

TransformerConfig read_gpt2_style_decoder(ConfigFields& fields, const SizeFields& names) {
  TransformerConfig config;
  config.norm = TransformerConfig::Norm::layer;
  config.gated = false;
  config.vocabulary = fields.required_size("vocab_size", kMaximumVocabulary);
  config.hidden = fields.required_size(names.hidden, kMaximumWidth);
  config.layers = fields.required_size(names.layers, kMaximumLayers);
  config.heads = config.kv_heads = fields.required_size(names.heads, kMaximumWidth);
  set_head_size(config, names.hidden, names.heads);
  return config;
}

int64_t read_mlp_size(ConfigFields& fields, const char* name, const TransformerConfig& config) {
  const int64_t inner = fields.size_or_none(name, 4 * kMaximumWidth);
  return inner > 0 ? inner : 4 * config.hidden;
}

void ignore_classifier(ConfigFields& fields) {
  for (const char* field : {"summary_type", "summary_use_proj", "summary_activation",
                            "summary_first_dropout", "summary_proj_to_labels"}) {
    fields.ignore(field);
  }
}

void set_head_size(TransformerConfig& config, const char* hidden_field, const char* heads_field) {
  if (config.hidden % config.heads != 0) {
    throw FieldError({heads_field, hidden_field}, "",
                     fmt::format("{} = {} is not a multiple of {} = {}", hidden_field,
                                 config.hidden, heads_field, config.heads));
  }
  config.head_size = config.hidden / config.heads;
}

std::vector<bool> read_sliding_layers(ConfigFields& fields, const TransformerConfig& config,
                                      const std::function<bool(int64_t)>& slides) {
  const std::vector<std::string> types =
      fields.text_of_layers("layer_types", config.layers, {"sliding_attention", "full_attention"});
  std::vector<bool> sliding;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    sliding.push_back(types.empty() ? slides(layer) : types[layer] == "sliding_attention");
  }
  return sliding;
}

std::vector<bool> read_window_pattern(ConfigFields& fields, TransformerConfig& config,
                                      int64_t pattern) {
  pattern = fields.size("sliding_window_pattern", pattern, kMaximumLayers);
  fields.ignore("_sliding_window_pattern");  // the file also has layer_types
  std::vector<bool> sliding = read_sliding_layers(
      fields, config, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  set_windows(config, sliding, fields.size("sliding_window", 4096, kMaximumPositions));
  return sliding;
}

void set_windows(TransformerConfig& config, const std::vector<bool>& sliding, int64_t window) {
  const LayerAttention of_all = config.attention.front();
  config.attention.assign(config.layers, of_all);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (sliding[layer]) config.attention[layer].window = window;
  }
}

}  // namespace colossal::models
