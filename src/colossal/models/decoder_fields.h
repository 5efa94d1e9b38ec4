// Reads fields of config.json that several families share.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Throws FieldError if the activation is unknown.
ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback);

// Reads the sizes of an older decoder, with layer norms and a non-gated MLP: the vocabulary, and
// hidden size, layers and heads from the fields named in `names`. Throws FieldError.
struct SizeFields {
  const char* hidden;
  const char* layers;
  const char* heads;
};
DecoderConfig read_plain_decoder(ConfigFields& fields, const SizeFields& names);

// Reads the MLP's intermediate size; 4 * hidden if missing.
int64_t read_inner(ConfigFields& fields, const char* name, const DecoderConfig& config);

// Ignores the classification head fields of GPT-2 and its descendants.
void ignore_classifier(ConfigFields& fields);

// Sets head_size = hidden / heads. Throws FieldError naming the fields if `heads` does not divide
// the hidden size.
void divide_among_heads(DecoderConfig& config, const char* hidden_field, const char* heads_field);

// Returns, for each layer, whether it has sliding-window attention: from layer_types of
// config.json, else from `slides`.
std::vector<bool> read_sliding_layers(ConfigFields& fields, const DecoderConfig& config,
                                      const std::function<bool(int64_t layer)>& slides);

// Gives every layer a sliding window except every `pattern`-th layer, unless sliding_window_pattern
// or layer_types override this. Returns, for each layer, whether it has a window.
std::vector<bool> read_pattern_of_windows(ConfigFields& fields, DecoderConfig& config,
                                          int64_t pattern);

// Sets the window of the layers marked in `sliding`. All layers must have the same attention
// settings before.
void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window);

}  // namespace colossal::models
