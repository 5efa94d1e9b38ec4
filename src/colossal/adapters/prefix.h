// Prefix tuning (X. L. Li and P. Liang 2021, "Prefix-Tuning: Optimizing Continuous Prompts for
// Generation"): settings, and layout in PEFT folders. The keys and values of a prefix precede those
// of every sequence: ops::VirtualTokens.
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

// Attention sizes of the model of a prefix.
struct PrefixedModel {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;  // of keys and values

  int64_t features() const { return kv_heads * head_size; }
  bool operator==(const PrefixedModel&) const = default;
};

// Returns the fields of adapter_config.json that determine the computation.
nlohmann::json shaping_fields(const PrefixSettings& settings, const PrefixedModel& model);
// Returns all fields of adapter_config.json. base: folder of the base model. scores: the model has
// a score head (sequence classification).
nlohmann::json peft_config(const PrefixSettings& settings, const PrefixedModel& model,
                           const std::string& base, bool scores);

struct PrefixFolder {
  PrefixSettings settings;
  PrefixedModel model;  // sizes of the prefixed model
};
PrefixFolder read_prefix_config(const PeftConfigReader& config);

// A parameter of a prefix in a model: the keys or the values of a layer.
struct PrefixParameter {
  int64_t layer = 0;
  bool of_values = false;
};
// Parses the name of a prefix parameter; nullopt for other parameters.
std::optional<PrefixParameter> find_prefix_parameter(const std::string& parameter);

// Returns the location of a prefix parameter in PEFT files: one tensor has a row per virtual token,
// in which the keys and values of all layers are concatenated.
TensorSlice slice_in_files(const PrefixParameter& parameter, const PrefixedModel& model);

}  // namespace colossal::adapters
