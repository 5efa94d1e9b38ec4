// Adapters in folders of peft: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/adapters/lora.h"
#include "colossal/adapters/prefix.h"

namespace colossal::adapters {

inline constexpr const char* kConfigFile = "adapter_config.json";
inline constexpr const char* kWeightsFile = "adapter_model.safetensors";

// Returns the fields of a folder's config that say how the adapter computes.
nlohmann::json shaping_fields(const LoraSettings& settings, const std::vector<Product>& products,
                              const std::vector<Product>& adapted);

// The model that is adapted.
struct BaseModel {
  std::string folder;
  bool stored_in_out = false;  // its weights are [in, out]
  bool scores = false;         // it scores texts
};
// Returns all fields of it.
nlohmann::json peft_config(const LoraSettings& settings, const std::vector<Product>& products,
                           const std::vector<Product>& adapted, const BaseModel& base);

// What an adapter's folder says of the model that it is of.
struct AdaptedModel {
  std::string folder;       // empty: it says none
  bool scores = false;      // it scores texts
  bool has_prefix = false;  // the adapter is one
};
// Nothing for a folder that is no adapter's.
std::optional<AdaptedModel> adapted_model(const std::filesystem::path& folder);

struct PeftFolder {
  LoraSettings settings;
  std::vector<std::string> modules;                   // that have an adapter, each once
  std::optional<PrefixFolder> prefix = std::nullopt;  // set: it has none of the above
};

// Throws ConfigError for a folder without an adapter, for a kind that is not read, naming the
// field, and for tensors that belong to no adapter.
PeftFolder read_peft_folder(const std::filesystem::path& folder);

// Returns those of a model's products for which the folder has adapters. Throws ConfigError if the
// folder's adapter is of another model.
std::vector<Product> adapted_products(const std::filesystem::path& folder, const PeftFolder& read,
                                      const std::vector<Product>& products);

}  // namespace colossal::adapters
