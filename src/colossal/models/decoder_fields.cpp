#include "colossal/models/decoder_fields.h"

namespace colossal::models {

ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback) {
  const std::string found = fields.text(name, fallback);
  if (const auto activation = ops::activation_of(found)) return *activation;
  throw FieldError({name}, fmt::format("{} = \"{}\"", name, found),
                   fmt::format("expected one of: {}", fmt::join(ops::activation_names(), ", ")));
}

void divide_among_heads(DecoderConfig& config, const char* hidden_field, const char* heads_field) {
  if (config.hidden % config.heads != 0) {
    throw FieldError({heads_field, hidden_field}, "",
                     fmt::format("{} = {} is not a multiple of {} = {}", hidden_field,
                                 config.hidden, heads_field, config.heads));
  }
  config.head_size = config.hidden / config.heads;
}

std::vector<bool> read_sliding_layers(ConfigFields& fields, const DecoderConfig& config,
                                      const std::function<bool(int64_t)>& slides) {
  const std::vector<std::string> types =
      fields.text_of_layers("layer_types", config.layers, {"sliding_attention", "full_attention"});
  std::vector<bool> sliding;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    sliding.push_back(types.empty() ? slides(layer) : types[layer] == "sliding_attention");
  }
  return sliding;
}

void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window) {
  const LayerAttention of_all = config.attention.front();
  config.attention.assign(config.layers, of_all);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (sliding[layer]) config.attention[layer].window = window;
  }
}

}  // namespace colossal::models
