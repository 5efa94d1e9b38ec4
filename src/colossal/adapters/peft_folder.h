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

// Returns the fields of adapter_config.json that determine what the adapter computes. products: all
// layers of the model that may have an adapter. adapted: those of them that have one.
nlohmann::json shaping_fields(const LoraSettings& settings, const std::vector<Product>& products,
                              const std::vector<Product>& adapted);

// The model that an adapter is for.
struct BaseModel {
  std::string folder;
  bool stored_in_out = false;  // weights are stored as [in, out]
  bool scores = false;         // has a score head (sequence classification)
};
// Returns all fields of adapter_config.json; arguments as of shaping_fields().
nlohmann::json peft_config(const LoraSettings& settings, const std::vector<Product>& products,
                           const std::vector<Product>& adapted, const BaseModel& base);

// What an adapter's folder says about the adapter and its base model.
struct AdaptedModel {
  std::string folder;       // the base model's folder or name; empty if not given
  bool scores = false;      // the model has a score head (sequence classification)
  bool has_prefix = false;  // the adapter is a prefix, not LoRA
};
// Returns nullopt if the folder has no adapter_config.json. Throws ConfigError if the file is
// invalid.
std::optional<AdaptedModel> adapted_model(const std::filesystem::path& folder);

struct PeftFolder {
  LoraSettings settings;
  std::vector<std::string> modules;                   // modules with an adapter, sorted, each once
  std::optional<PrefixFolder> prefix = std::nullopt;  // if set, the other fields are unused
};

// Reads adapter_config.json and the names of the tensors of an adapter folder. Throws ConfigError
// if the folder has no adapter, if the adapter is of an unsupported kind (the message names the
// field), or if a tensor belongs neither to an adapter nor to modules_to_save.
PeftFolder read_peft_folder(const std::filesystem::path& folder);

// Returns those of `products`, the layers of a model, that have an adapter in the folder. read: the
// result of read_peft_folder(). Throws ConfigError if a module with an adapter is no layer of the
// model.
std::vector<Product> adapted_products(const std::filesystem::path& folder, const PeftFolder& read,
                                      const std::vector<Product>& products);

}  // namespace colossal::adapters
