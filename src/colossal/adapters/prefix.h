// Prefix tuning (X. L. Li and P. Liang 2021, "Prefix-Tuning: Optimizing Continuous Prompts for
// Generation"): settings of a prefix, and its format in PEFT folders. A prefix is an adapter that
// consists of trained keys and values, called virtual tokens, for each attention layer; all
// sequences attend to them (ops::VirtualTokens).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "colossal/adapters/peft_config_reader.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/nn/builder.h"

namespace colossal::adapters {

inline constexpr const char* kPrefixKind = "PREFIX_TUNING";  // field peft_type of a prefix

struct PrefixSettings {
  int64_t virtual_tokens = 20;  // number per attention layer
  // Initial values. True: zeros. False: normally distributed with standard deviation 1.
  bool begins_with_zeros = false;
};

// Returns the options for nn::Builder::adapt().
nn::AdapterOptions adapter_options(const PrefixSettings& settings);

// The sizes of a model's attention, which its prefixes must have. Each block has one attention
// layer.
struct PrefixedModel {
  int64_t layers = 0;     // number of attention layers, which is the number of blocks
  int64_t kv_heads = 0;   // of a layer, over all ranks
  int64_t head_size = 0;  // features of a key head, and of a value head

  // Returns the features of one layer's keys, or values, of one token.
  int64_t features() const { return kv_heads * head_size; }
  bool operator==(const PrefixedModel&) const = default;
};

// Returns the fields of adapter_config.json that determine what the prefix computes.
nlohmann::json shaping_fields(const PrefixSettings& settings, const PrefixedModel& model);
// Returns all fields of adapter_config.json: shaping_fields() and the fields about the base model.
// base: folder of the base model. scores: whether the model has a score head (sequence
// classification).
nlohmann::json peft_config(const PrefixSettings& settings, const PrefixedModel& model,
                           const std::string& base, bool scores);

// The contents of adapter_config.json of a prefix.
struct PrefixFolder {
  PrefixSettings settings;  // begins_with_zeros is false: the file does not have it
  PrefixedModel model;      // sizes of the model to which the prefix belongs
};
// Reads these contents. Throws ConfigError, which names the field, if a value is missing or not
// supported.
PrefixFolder read_prefix_config(const PeftConfigReader& config);

// A parameter of a prefix in the model: the keys or the values of one attention layer.
struct PrefixParameter {
  int64_t layer = 0;       // index of the attention layer, and of its block, from 0
  bool of_values = false;  // true: values; false: keys
};
// Parses the full name of a parameter, such as "blocks.3.attention.virtual_keys.weight". Returns
// nullopt if it is not a parameter of a prefix.
std::optional<PrefixParameter> find_prefix_parameter(const std::string& parameter);

// Returns where PEFT files store a prefix parameter. All parameters are in one tensor [virtual
// tokens, 2 * layers * features()]. A row has, in this order, the token's keys in layer 0, its
// values in layer 0, its keys in layer 1, and so on. The result selects, in all rows, the
// features() columns of this parameter.
TensorSlice slice_in_files(const PrefixParameter& parameter, const PrefixedModel& model);

}  // namespace colossal::adapters
