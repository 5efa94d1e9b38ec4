// Resolves the model that a run asks for, and builds it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/adapters/lora.h"
#include "colossal/adapters/prefix.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/stored_form.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models {

// An adapter: low-rank weights for some layers (LoRA), or a prefix. The model's own parameters are
// frozen, except those in `trained`.
struct ModelAdapter {
  adapters::LoraSettings settings;
  std::vector<adapters::Product> products;  // the linear layers and tables that have an adapter
  std::vector<std::string> trained = {};    // parameters of the model that are not frozen
  // If set, the adapter is this prefix, and the fields above are empty.
  std::optional<adapters::PrefixSettings> prefix = std::nullopt;
  // Type to which the frozen linear weights of the model are quantized; nullopt: not quantized. Not
  // stored in an adapter's folder.
  std::optional<ops::PackedType> base = std::nullopt;
  std::filesystem::path weights;  // a peft folder; empty: the adapter is newly initialized

  // Whether a run that starts with this adapter can use the model without the adapter as its
  // reference model.
  bool base_is_reference() const { return weights.empty() && !settings.pissa && trained.empty(); }
};

// Everything that defines a model.
struct ModelSpecification {
  // All fields of config.json that affect the computation, and the transformers class that loads
  // the model.
  nlohmann::json config;
  // The other fields of the given config.json, which are copied to checkpoints.
  nlohmann::json other_fields;
  DecoderConfig decoder;
  ModelFacts facts;
  std::filesystem::path weights;  // folder of the weights; empty: random weights
  // Parameters that are not in the folder and are newly initialized, such as a new head.
  std::vector<std::string> newly_initialized = {};
  std::optional<ModelAdapter> adapter = std::nullopt;
};

struct ModelRequest {
  // One of preset_names(); empty if `path` is set.
  std::string preset;
  // A folder with config.json; empty if `preset` is set.
  std::string path;
  nlohmann::json overrides = nlohmann::json::object();  // fields of config.json
  // For each overridden field, how error messages about it begin: "run.toml:3: model.n_layer = 0".
  std::map<std::string, std::string> override_places = {};
  double dropout = -1;  // if >= 0: replaces all dropout probabilities of the model
  // Build a reward model. The head is new if the folder's model predicts tokens.
  bool score_head = false;
  // Add a value head. The head is new if the folder has none.
  bool value_head = false;
  // Build an EAGLE draft model (DecoderConfig::is_draft_head). If the folder holds a target model
  // instead of a draft model, the draft model gets the target's embedding, final norm and head, and
  // one new block like the target's first.
  bool draft_head = false;
};

std::vector<std::string> preset_names();

// Throws ConfigError: if both or neither of preset and path are given; for an unknown preset
// (naming the nearest one), a missing config.json, and an unknown family; for a missing, invalid or
// unknown field, and an override of an unknown field; for weights in an unsupported format; and for
// a draft model's folder without draft_head.
ModelSpecification resolve_model(const ModelRequest& request);

// Returns how a folder's weights are quantized; not quantized if there is no config.json.
StoredForm stored_form_of(const std::filesystem::path& folder);

std::unique_ptr<LanguageModel> build_model(const ModelSpecification& specification,
                                           nn::Builder& build);

// Returns everything that can have an adapter: the token embedding, the linear layers of the
// blocks, and the heads.
std::vector<adapters::Product> list_products(const ModelSpecification& specification);

// Returns the parameters of `modules`, which are named as in the model's files. adapted: what has
// an adapter. Throws ConfigError naming `key` if a name matches no module, if a module has an
// adapter, or if its weights are tied to the head.
std::vector<std::string> list_trained(const ModelSpecification& specification,
                                      const std::vector<std::string>& modules,
                                      const std::vector<adapters::Product>& adapted,
                                      const std::string& key);

// Returns the attention sizes that a prefix must match.
adapters::PrefixedModel prefixed_model(const ModelSpecification& specification);

// Sets or removes the adapter, and updates the facts that depend on it. Throws ConfigError for a
// prefix that the model does not support.
void set_adapter(ModelSpecification& specification, std::optional<ModelAdapter> adapter);

// Adds the adapter of a peft folder. Throws ConfigError if the adapter is not supported or belongs
// to another model.
ModelSpecification with_adapter(ModelSpecification specification,
                                const std::filesystem::path& folder);

// Returns how tensor parallelism shards the model's layers.
parallel::Sharding sharding(const ModelSpecification& specification);

// Returns where a parameter is stored in Hugging Face files. Parameters of an adapter, and
// parameters that are trained with it, are stored in peft files.
TensorSlice slice_in_files(const ModelSpecification& specification, const std::string& parameter);
// Like slice_in_files(), but returns the place in the model's own files for parameters that are
// trained with an adapter.
TensorSlice slice_in_model(const ModelSpecification& specification, const std::string& parameter);

// For a tensor of a Hugging Face file to which no parameter maps: returns "" if the model ignores
// the tensor or computes its values itself; the name of the original if the tensor is a copy (the
// head of a model with tied embeddings); and nullopt if the tensor is unknown.
std::optional<std::string> explain_unmapped_tensor(const ModelSpecification& specification,
                                                   const std::string& name);

}  // namespace colossal::models
