// Reads fields of config.json that several model families share, into a TransformerConfig. All
// functions that read fields throw FieldError (config_fields.h) if a value is invalid.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/transformer_config.h"

namespace colossal::models {

// Reads the name of an activation from the field `name`. fallback: the activation's name if the
// field is missing; not null. Throws FieldError if the activation is unknown.
ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback);

// Names of the fields of sizes, which differ between older families.
struct SizeFields {
  const char* hidden;  // such as "n_embd"
  const char* layers;
  const char* heads;
};
// Reads the sizes of an older decoder, in the way of GPT-2: vocab_size, and the fields in `names`.
// Sets layer norms, an MLP without a gate, kv_heads = heads, and head_size = hidden / heads. Throws
// FieldError if one of these fields is missing, or if hidden / heads has a remainder.
TransformerConfig read_gpt2_style_decoder(ConfigFields& fields, const SizeFields& names);

// Reads the MLP's intermediate size from the field `name`; returns 4 * config.hidden if the field
// is missing or null.
int64_t read_mlp_size(ConfigFields& fields, const char* name, const TransformerConfig& config);

// Calls fields.ignore() for the fields of the classification head in GPT-2 and related families.
void ignore_classifier(ConfigFields& fields);

// Sets config.head_size = config.hidden / config.heads. hidden_field, heads_field: names of the
// fields with these sizes, for the message. Throws FieldError if the division has a remainder.
void set_head_size(TransformerConfig& config, const char* hidden_field, const char* heads_field);

// Returns for each layer whether it has sliding-window attention: from layer_types in config.json
// or, if that field is missing, from slides(layer). layer: from 0. config.layers must be set
// before, also for the two functions below.
std::vector<bool> read_sliding_layers(ConfigFields& fields, const TransformerConfig& config,
                                      const std::function<bool(int64_t layer)>& slides);

// Sets the sliding window of all layers except layers pattern - 1, 2 * pattern - 1, ..., to the
// field sliding_window (4096 if the field is missing or null). The field sliding_window_pattern
// overrides `pattern`, and layer_types overrides both. Returns for each layer whether it has a
// window. config.attention must have a single entry before the call; afterwards it has one entry
// per layer.
std::vector<bool> read_window_pattern(ConfigFields& fields, TransformerConfig& config,
                                      int64_t pattern);

// Sets the window, in tokens, of the layers whose entry in `sliding` is true. config.attention must
// have a single entry before the call; afterwards it has one entry per layer.
void set_windows(TransformerConfig& config, const std::vector<bool>& sliding, int64_t window);

}  // namespace colossal::models
