// Reads fields of config.json that several families share.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Throws FieldError for an activation that is not known.
ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback);

// Reads an older decoder, with layer norms and an MLP without a gate: vocabulary, and hidden size,
// layers and heads from the fields of these names. Throws FieldError.
struct SizeFields {
  const char* hidden;
  const char* layers;
  const char* heads;
};
DecoderConfig read_plain_decoder(ConfigFields& fields, const SizeFields& names);

// Reads the features between the products of the MLP; four times the hidden size if absent.
int64_t read_inner(ConfigFields& fields, const char* name, const DecoderConfig& config);

// Ignores the fields of classification heads in config.json of GPT-2 and its descendants.
void ignore_classifier(ConfigFields& fields);

// Sets the head size to hidden size / heads. Throws FieldError, naming the fields, if heads do not
// divide it.
void divide_among_heads(DecoderConfig& config, const char* hidden_field, const char* heads_field);

// Returns for each layer whether its attention has a sliding window: by layer_types of config.json,
// else by `slides`.
std::vector<bool> read_sliding_layers(ConfigFields& fields, const DecoderConfig& config,
                                      const std::function<bool(int64_t layer)>& slides);

// Gives all layers but each `pattern`-th a sliding window, unless sliding_window_pattern or
// layer_types say otherwise. Returns which layers have one.
std::vector<bool> read_pattern_of_windows(ConfigFields& fields, DecoderConfig& config,
                                          int64_t pattern);

// Gives the layers in `sliding` a window. All layers must have had the same attention before.
void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window);

}  // namespace colossal::models
