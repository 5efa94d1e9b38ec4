// What families read from config.json in the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Throws FieldError for an activation that is not known.
ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback);

// What older decoders have in common: layer norms and an MLP without a gate; vocabulary, hidden
// size, layers and heads, by the names of their fields. Throws FieldError.
struct SizeFields {
  const char* hidden;
  const char* layers;
  const char* heads;
};
DecoderConfig read_plain_decoder(ConfigFields& fields, const SizeFields& names);

// Features between the products of the MLP; four times the hidden size where the field is absent.
int64_t read_inner(ConfigFields& fields, const char* name, const DecoderConfig& config);

// Of heads that classify, which GPT-2's config.json and those of its descendants have.
void ignore_classifier(ConfigFields& fields);

// A head's size, where all heads of queries together have the hidden size. Throws FieldError where
// they cannot, naming the fields.
void divide_among_heads(DecoderConfig& config, const char* hidden_field, const char* heads_field);

// For each layer whether its attention slides: config.json's layer_types say it, else `slides`.
std::vector<bool> read_sliding_layers(ConfigFields& fields, const DecoderConfig& config,
                                      const std::function<bool(int64_t layer)>& slides);

// Layers of which all but each pattern-th slide; sliding_window_pattern and layer_types may say
// otherwise. Gives those a window, and returns which they are.
std::vector<bool> read_pattern_of_windows(ConfigFields& fields, DecoderConfig& config,
                                          int64_t pattern);

// Gives the layers that slide a window. All layers had the same attention before.
void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window);

}  // namespace colossal::models
