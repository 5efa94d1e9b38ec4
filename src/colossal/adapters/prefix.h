// Prefix tuning (X. L. Li and P. Liang 2021, "Prefix-Tuning: Optimizing Continuous Prompts for
// Generation"): how a prefix is described, and its place in folders of peft. Its keys and values
// come before those of every sequence: ops::VirtualTokens.
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
  bool begins_with_zeros = false;  // else with normal numbers, of standard deviation 1
};

nn::AdapterOptions adapter_options(const PrefixSettings& settings);

// The attention of the model that has it.
struct PrefixedModel {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;  // of keys and of values

  int64_t features() const { return kv_heads * head_size; }
  bool operator==(const PrefixedModel&) const = default;
};

// Returns the fields of a folder's config that say how the prefix computes.
nlohmann::json shaping_fields(const PrefixSettings& settings, const PrefixedModel& model);
// Returns all fields of it. base: the model's folder; scores: it scores texts.
nlohmann::json peft_config(const PrefixSettings& settings, const PrefixedModel& model,
                           const std::string& base, bool scores);

struct PrefixFolder {
  PrefixSettings settings;
  PrefixedModel model;  // that it is of
};
PrefixFolder read_prefix_config(const PeftConfigReader& config);

// A parameter of a prefix, in a model: the keys or the values of a layer.
struct PrefixParameter {
  int64_t layer = 0;
  bool of_values = false;
};
// Reads the name of one; nothing for another parameter.
std::optional<PrefixParameter> find_prefix_parameter(const std::string& parameter);

// Returns where peft files hold it: one tensor has a row for each virtual token, with the keys and
// the values of each layer side by side.
TensorSlice slice_in_files(const PrefixParameter& parameter, const PrefixedModel& model);

}  // namespace colossal::adapters
