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

// A head's size, where all heads of queries together have the hidden size. Throws FieldError where
// they cannot, naming the fields.
void divide_among_heads(DecoderConfig& config, const char* hidden_field, const char* heads_field);

// For each layer whether its attention slides: config.json's layer_types say it, else `slides`.
std::vector<bool> read_sliding_layers(ConfigFields& fields, const DecoderConfig& config,
                                      const std::function<bool(int64_t layer)>& slides);

// Gives the layers that slide a window. All layers had the same attention before.
void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window);

}  // namespace colossal::models
