#include "colossal/models/rotary_fields.h"

#include <algorithm>
#include <string>
#include <vector>

namespace colossal::models {
namespace {

using Scaling = ops::RotaryOptions::Scaling;

constexpr double kLargestBase = 1e12;
constexpr double kLargestFactor = 1e6;

nlohmann::json object_of(const nlohmann::json& json, const char* name) {
  return ConfigFields(json).object(name);
}

// Reads the fields of one type of scaling.
class ScalingReader {
 public:
  ScalingReader(const nlohmann::json& scaling, const TransformerConfig& config,
                const RotaryDefaults& defaults, ops::RotaryOptions& rotary)
      : fields_(scaling), config_(config), defaults_(defaults), rotary_(rotary) {}

  // Returns the fields that nothing reads.
  std::vector<std::string> unknown_fields() const { return fields_.unknown_fields(); }

  void read() {
    type_ = fields_.text("rope_type", fields_.text("type", "default"));
    if (type_ == "linear") {
      read_factor(Scaling::linear);
    } else if (type_ == "dynamic") {
      read_factor(Scaling::dynamic);
      rotary_.original_positions = config_.positions;
    } else if (type_ == "llama3") {
      read_llama3();
    } else if (type_ == "yarn") {
      read_yarn();
    } else if (type_ == "longrope") {
      read_longrope();
    } else if (type_ != "default") {
      throw FieldError({"rope_type"}, fmt::format("rope_type = \"{}\"", type_),
                       "expected \"default\", \"linear\", \"dynamic\", \"yarn\", \"longrope\" or "
                       "\"llama3\"");
    }
    refuse_settings_of_other_types();
  }

 private:
  void read_factor(Scaling scaling) {
    rotary_.scaling = scaling;
    rotary_.factor = fields_.number("factor", 1, 1e-3, kLargestFactor);
  }

  void read_original_positions() {
    const int64_t fallback =
        defaults_.original_positions > 0 ? defaults_.original_positions : config_.positions;
    rotary_.original_positions =
        fields_.size("original_max_position_embeddings", fallback, kMaximumPositions);
    if (defaults_.original_positions > 0) rotary_.original_positions = fallback;
  }

  // The default of `factor` follows from the positions.
  void read_factor_of_positions() {
    rotary_.factor = fields_.number(
        "factor",
        static_cast<double>(config_.positions) / static_cast<double>(rotary_.original_positions),
        1e-3, kLargestFactor);
    rotary_.attention_factor = fields_.number_or_none("attention_factor", 1e-3, kLargestFactor);
  }

  void read_llama3() {
    read_factor(Scaling::llama3);
    rotary_.low_frequency_factor = fields_.number("low_freq_factor", 1, 1e-3, kLargestFactor);
    rotary_.high_frequency_factor = fields_.number("high_freq_factor", 4, 1e-3, kLargestFactor);
    read_original_positions();
    if (rotary_.high_frequency_factor <= rotary_.low_frequency_factor) {
      throw FieldError({"high_freq_factor", "low_freq_factor"}, "",
                       fmt::format("high_freq_factor = {} is not above low_freq_factor = {}",
                                   rotary_.high_frequency_factor, rotary_.low_frequency_factor));
    }
  }

  void read_yarn() {
    rotary_.scaling = Scaling::yarn;
    read_original_positions();
    read_factor_of_positions();
    rotary_.beta_fast = fields_.number("beta_fast", 32, 1e-3, kLargestFactor);
    rotary_.beta_slow = fields_.number("beta_slow", 1, 1e-3, kLargestFactor);
    rotary_.mscale = fields_.number_or_none("mscale", 0, kLargestFactor);
    rotary_.mscale_all_dim = fields_.number_or_none("mscale_all_dim", 0, kLargestFactor);
    rotary_.truncate = fields_.flag("truncate", true);
  }

  void read_longrope() {
    rotary_.scaling = Scaling::longrope;
    read_original_positions();
    read_factor_of_positions();
    const int64_t channels = rotary_.channels > 0 ? rotary_.channels : config_.head_size;
    rotary_.short_factors = fields_.numbers("short_factor", channels / 2, 1e-6, kLargestFactor);
    rotary_.long_factors = fields_.numbers("long_factor", channels / 2, 1e-6, kLargestFactor);
  }

  // A factor without a type was meant to scale, and objects have the settings of kinds of layers.
  void refuse_settings_of_other_types() {
    for (const auto& [field, value] : fields_.json().items()) {
      if (!value.is_object()) continue;
      throw FieldError({field}, fmt::format("rope_scaling.{} = {}", field, value.dump()),
                       "expected no object: all layers have the same rotary embedding");
    }
    if (type_ != "default" || !fields_.has("factor")) return;
    throw FieldError(
        {"factor"}, fmt::format("rope_scaling.factor = {}", fields_.json()["factor"].dump()),
        "rope_type \"default\" has no such field; give rope_type, such as \"linear\" or "
        "\"yarn\", too");
  }

  ConfigFields fields_;
  const TransformerConfig& config_;
  const RotaryDefaults& defaults_;
  ops::RotaryOptions& rotary_;
  std::string type_;
};

// Reads the fraction of a head's channels that is rotated.
double read_fraction(ConfigFields& fields, const RotaryDefaults& defaults,
                     const nlohmann::json& scaling) {
  if (defaults.partial_field) {
    return fields.number(defaults.partial_field, defaults.partial, 1e-3, 1);
  }
  constexpr const char* kField = "partial_rotary_factor";
  if (!fields.has(kField)) return 1;
  // transformers rotates all channels, except that it fails if there is scaling, too
  if (!scaling.is_null()) fields.require_if_given(kField, 1.0);
  if (fields.json()[kField] == 1.0) fields.ignore(kField);
  return 1;
}

}  // namespace

void use_older_rotary_fields(nlohmann::json& json) {
  nlohmann::json rotary = object_of(json, "rope_scaling");
  if (rotary.empty()) rotary = object_of(json, "rope_parameters");
  json.erase("rope_parameters");
  for (const char* field : {"rope_theta", "partial_rotary_factor"}) {
    if (rotary.contains(field)) json[field] = rotary[field];
    if (!rotary.is_null()) rotary.erase(field);
  }
  const auto is_default = [&](const char* field) {
    return rotary.contains(field) && rotary[field] == "default";
  };
  const bool none =
      rotary.empty() || (rotary.size() == 1 && (is_default("rope_type") || is_default("type")));
  json["rope_scaling"] = none ? nlohmann::json() : rotary;
}

ops::RotaryOptions read_rotary(ConfigFields& fields, const TransformerConfig& config,
                               const RotaryDefaults& defaults) {
  const nlohmann::json scaling = fields.object("rope_scaling");
  ops::RotaryOptions rotary{
      .base = fields.number(defaults.base_field, defaults.base, 1, kLargestBase),
      .interleaved = defaults.interleaved};
  const double fraction = read_fraction(fields, defaults, scaling);
  const auto channels = static_cast<int64_t>(static_cast<double>(config.head_size) * fraction);
  if (channels < 2 || channels % 2 != 0) {
    throw FieldError({"head_dim", "hidden_size", "num_attention_heads", "partial_rotary_factor"},
                     fmt::format("head_dim = {}", config.head_size),
                     fmt::format("rotary positions turn pairs of channels, so an even number of a "
                                 "head's channels must turn, not {}",
                                 channels));
  }
  if (channels < config.head_size) rotary.channels = channels;
  if (scaling.is_null()) return rotary;
  ScalingReader reader(scaling, config, defaults, rotary);
  reader.read();
  for (const std::string& field : reader.unknown_fields()) {
    fields.add_unknown("rope_scaling." + field);
  }
  return rotary;
}

}  // namespace colossal::models
