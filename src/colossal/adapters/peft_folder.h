// PEFT adapter folders: adapter_config.json and adapter_model.safetensors.
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

// Returns the fields of adapter_config.json that determine the computation. products: all layers of
// the model that may have an adapter. adapted: those that have one.
nlohmann::json shaping_fields(const LoraSettings& settings, const std::vector<Product>& products,
                              const std::vector<Product>& adapted);

// The base model of an adapter.
struct BaseModel {
  std::string folder;
  bool stored_in_out = false;  // weights are stored as [in, out]
  bool scores = false;         // has a score head (sequence classification)
};
// Returns all fields of adapter_config.json.
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
  std::vector<std::string> modules;                   // modules with an adapter, without duplicates
  std::optional<PrefixFolder> prefix = std::nullopt;  // if set, the other fields are unused
};

// Reads an adapter folder. Throws ConfigError if the folder has no adapter, if the adapter is of an
// unsupported kind (the message names the field), or if a tensor belongs to no adapter.
PeftFolder read_peft_folder(const std::filesystem::path& folder);

// Returns those of a model's layers that have an adapter in the folder. read: the result of
// read_peft_folder(). Throws ConfigError if the adapter belongs to another model.
std::vector<Product> adapted_products(const std::filesystem::path& folder, const PeftFolder& read,
                                      const std::vector<Product>& products);

}  // namespace colossal::adapters
