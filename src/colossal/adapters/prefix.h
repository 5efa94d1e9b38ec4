// Prefix tuning (X. L. Li and P. Liang 2021, "Prefix-Tuning: Optimizing Continuous Prompts for
// Generation"): settings of a prefix, and its form in PEFT folders. In attention, the keys and
// values of a prefix come before those of every sequence (ops::VirtualTokens).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "colossal/adapters/peft_config_reader.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/nn/builder.h"

namespace colossal::adapters {

inline constexpr const char* kPrefixKind = "PREFIX_TUNING";  // peft_type

struct PrefixSettings {
  int64_t virtual_tokens = 20;
  bool begins_with_zeros = false;  // initial values: zeros, else normal with standard deviation 1
};

nn::AdapterOptions adapter_options(const PrefixSettings& settings);

// Attention sizes of the model that a prefix is for.
struct PrefixedModel {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;  // of keys and values

  int64_t features() const { return kv_heads * head_size; }
  bool operator==(const PrefixedModel&) const = default;
};

// Returns the fields of adapter_config.json that determine what the prefix computes.
nlohmann::json shaping_fields(const PrefixSettings& settings, const PrefixedModel& model);
// Returns all fields of adapter_config.json. base: folder of the base model. scores: whether the
// model has a score head (sequence classification).
nlohmann::json peft_config(const PrefixSettings& settings, const PrefixedModel& model,
                           const std::string& base, bool scores);

struct PrefixFolder {
  PrefixSettings settings;
  PrefixedModel model;  // sizes of the model that the prefix is for
};
// Throws ConfigError, which names the field, for missing or unsupported values.
PrefixFolder read_prefix_config(const PeftConfigReader& config);

// A parameter of a prefix in a model: the keys or the values of one layer.
struct PrefixParameter {
  int64_t layer = 0;
  bool of_values = false;
};
// Parses the name of a prefix parameter; nullopt for other parameters.
std::optional<PrefixParameter> find_prefix_parameter(const std::string& parameter);

// Returns where PEFT files store a prefix parameter: in columns of one tensor, which has a row for
// each virtual token. A row holds the keys and values of all layers, one after the other.
TensorSlice slice_in_files(const PrefixParameter& parameter, const PrefixedModel& model);

}  // namespace colossal::adapters
