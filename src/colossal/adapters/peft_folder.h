// Reads adapter folders in the format of Hugging Face PEFT, and makes the contents of their
// adapter_config.json. A folder has two files: adapter_config.json with the settings and
// adapter_model.safetensors with the weights.
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
// A file of ours with the fields id2label, label2id and problem_type, as in config.json, of a model
// that labels texts: adapter_config.json has no place for them.
inline constexpr const char* kLabelsFile = "labels.json";

// Returns the fields of adapter_config.json that determine what the adapter computes. products: all
// layers of the model that can have an adapter. adapted: the layers that have an adapter.
nlohmann::json shaping_fields(const LoraSettings& settings, const std::vector<Product>& products,
                              const std::vector<Product>& adapted);

// The model to which an adapter belongs.
struct BaseModel {
  std::string folder;          // path or name; written as base_model_name_or_path
  bool stored_in_out = false;  // whether weights are stored as [in, out]
  bool scores = false;         // whether the model has a score head (sequence classification)
  bool encoder_decoder = false;
  bool two_towers = false;  // whether it gives images and texts vectors, for which peft has no task
};
// Returns all fields of adapter_config.json: shaping_fields(settings, products, adapted) and the
// fields about the base model and the training.
nlohmann::json peft_config(const LoraSettings& settings, const std::vector<Product>& products,
                           const std::vector<Product>& adapted, const BaseModel& base);

// What adapter_config.json says about the base model to load, and the kind of adapter.
struct AdaptedModel {
  std::string folder;  // folder or name of the base model; empty if not given
  // Number of scores of a model that scores or classifies texts: rows of the head in the adapter's
  // folder, or 1 if the folder has no head. 0: the model predicts tokens.
  int64_t scores = 0;
  // The contents of kLabelsFile; null if there is no such file.
  nlohmann::json labels = {};
  bool has_prefix = false;  // true: the adapter is a prefix; false: LoRA or an unsupported kind
};
// Reads an AdaptedModel from the adapter folder `folder`, from the fields base_model_name_or_path,
// task_type and peft_type, and the names and shapes of the weights. Returns nullopt if the folder
// has no adapter_config.json. Throws IoError if the file cannot be read or is not JSON, and
// ConfigError if it is not a JSON object or one of the three fields is not a string.
std::optional<AdaptedModel> adapted_model(const std::filesystem::path& folder);

// The contents of an adapter folder, without the weights.
struct PeftFolder {
  LoraSettings settings;  // as in the file, but dropout is always 0 and pissa always false
  // Names of the layers that have an adapter, as the model's files name them
  // ("model.layers.3.self_attn.q_proj"; Product::module); sorted, without duplicates.
  std::vector<std::string> modules;
  std::optional<PrefixFolder> prefix = std::nullopt;  // if set, the other fields are unused
};

// Reads adapter_config.json and, unless the adapter is a prefix, the names of the tensors in
// adapter_model.safetensors. Tensors that are copies of base weights are ignored (copied_module()
// in peft_names.h), and so are those of whole weights (whole_weights.h). Throws ConfigError if one
// of the two files is missing (also for a prefix), if a field is invalid or asks for a kind of
// adapter that is not supported (the message names the field), if there is any other tensor, or if
// the field use_dora is true without tensors of DoRA magnitudes, or false with them. Throws IoError
// if a file cannot be read, is not JSON or is not a safetensors file.
PeftFolder read_peft_folder(const std::filesystem::path& folder);

// Returns the layers in `products` that have a LoRA adapter in the folder; none if the adapter is a
// prefix. folder: used only in error messages. read: the result of read_peft_folder(folder).
// products: all layers of the model that can have an adapter. Throws ConfigError if one of
// read.modules is not the module of any of `products`.
std::vector<Product> adapted_products(const std::filesystem::path& folder, const PeftFolder& read,
                                      const std::vector<Product>& products);

}  // namespace colossal::adapters
