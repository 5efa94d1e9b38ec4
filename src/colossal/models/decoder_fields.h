// Reads fields of config.json that several families share.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Reads the name of an activation. Throws FieldError if it is unknown.
ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback);

// Names of the fields of sizes, which differ between older families.
struct SizeFields {
  const char* hidden;
  const char* layers;
  const char* heads;
};
// Reads the sizes of an older decoder, which has layer norms and an MLP without a gate: vocab_size,
// and the fields in `names`. Throws FieldError.
DecoderConfig read_plain_decoder(ConfigFields& fields, const SizeFields& names);

// Reads the MLP's intermediate size from the field `name`; 4 * hidden if missing.
int64_t read_inner(ConfigFields& fields, const char* name, const DecoderConfig& config);

// Ignores the fields of the classification head in GPT-2 and related families.
void ignore_classifier(ConfigFields& fields);

// Sets head_size = hidden / heads. Throws FieldError naming the fields if `heads` does not divide
// the hidden size.
void divide_among_heads(DecoderConfig& config, const char* hidden_field, const char* heads_field);

// Returns, for each layer, whether it has sliding-window attention: from layer_types in config.json
// or, if that is missing, from `slides`.
std::vector<bool> read_sliding_layers(ConfigFields& fields, const DecoderConfig& config,
                                      const std::function<bool(int64_t layer)>& slides);

// Sets a sliding window for all layers except every `pattern`-th one. In config.json,
// sliding_window_pattern overrides `pattern`, and layer_types overrides both. Returns, for each
// layer, whether it has a window.
std::vector<bool> read_window_pattern(ConfigFields& fields, DecoderConfig& config, int64_t pattern);

// Sets the window of the layers whose entry in `sliding` is true. Before the call, config.attention
// must have a single entry.
void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window);

}  // namespace colossal::models
