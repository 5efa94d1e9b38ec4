// Finds the model that a run asks for, and builds it.
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

// The adapter of a model, low-rank ones of products or a prefix; nothing else is trained then.
struct ModelAdapter {
  adapters::LoraSettings settings;
  std::vector<adapters::Product> products;  // that have one
  std::vector<std::string> trained = {};    // parameters of the model that are trained as they are
  std::optional<adapters::PrefixSettings> prefix = std::nullopt;  // set: none of the above
  // How the weights of the model's products are held; unset: as numbers. It is no part of what an
  // adapter's folder says.
  std::optional<ops::PackedType> base = std::nullopt;
  std::filesystem::path weights;  // a peft folder; empty: new ones

  // Whether the model without it is the reference of a run that begins with it.
  bool leaves_reference() const { return weights.empty() && !settings.pissa && trained.empty(); }
};

// All that says what a model is.
struct ModelSpecification {
  // Every field of config.json that shapes the computation, and the class that opens a folder.
  nlohmann::json config;
  nlohmann::json other_fields;  // the rest of a folder's config.json, passed on to checkpoints
  DecoderConfig decoder;
  ModelFacts facts;
  std::filesystem::path weights;  // a folder with weights, or empty: random weights
  // Parameters that the folder has no weights for, such as a new head.
  std::vector<std::string> without_weights = {};
  std::optional<ModelAdapter> adapter = std::nullopt;
};

struct ModelRequest {
  std::string preset;                                   // one of preset_names(), or empty
  std::string path;                                     // a folder with config.json, or empty
  nlohmann::json overrides = nlohmann::json::object();  // fields of config.json
  // For each overridden field, how an error about it begins: "run.toml:3: model.n_layer = 0".
  std::map<std::string, std::string> override_places = {};
  double dropout = -1;  // >= 0: all of the model's dropout probabilities
  // The model scores texts; its head is new if the folder's model predicts tokens.
  bool score_head = false;
  // The model has a value head too, a new one if the folder has none.
  bool value_head = false;
  // The model guesses for another (DecoderConfig::reads_states). If it is not the folder's: for
  // that of the folder, with its tables and last norm, and one new block of its kind.
  bool draft_head = false;
};

std::vector<std::string> preset_names();

// Throws ConfigError for both or neither of preset and path, an unknown preset (naming the
// nearest), a missing config.json, an unknown family, a field that is missing, absurd or unknown,
// an override of an unknown field, and weights in a format that is not read.
ModelSpecification resolve_model(const ModelRequest& request);

// Returns how a folder's weights are stored; one without config.json holds numbers.
StoredForm stored_form_of(const std::filesystem::path& folder);

std::unique_ptr<LanguageModel> build_model(const ModelSpecification& specification,
                                           nn::Builder& build);

// Returns all products that can be adapted: the token embedding's, those of the blocks, and the
// heads'.
std::vector<adapters::Product> list_products(const ModelSpecification& specification);

// Returns the parameters of these modules of its files. Throws ConfigError, naming `key`, for a
// module that is none, that is divided among products with adapters, or whose table the head
// shares.
std::vector<std::string> list_trained(const ModelSpecification& specification,
                                      const std::vector<std::string>& modules,
                                      const std::vector<adapters::Product>& adapted,
                                      const std::string& key);

// The attention of a model as prefixes describe it.
adapters::PrefixedModel prefixed_model(const ModelSpecification& specification);

// Gives it this adapter, or none, and what its facts say then. Throws ConfigError for a prefix that
// the model cannot have.
void set_adapter(ModelSpecification& specification, std::optional<ModelAdapter> adapter);

// With the adapter of a folder of peft. Throws ConfigError for one that is not read, or of another
// model.
ModelSpecification with_adapter(ModelSpecification specification,
                                const std::filesystem::path& folder);

// Returns how the model's layers are cut among the ranks of a tensor-parallel group.
parallel::Sharding sharding(const ModelSpecification& specification);

// Returns where a parameter lies in Hugging Face files; an adapter's, in peft files, and so does
// what is trained with it.
TensorSlice slice_in_files(const ModelSpecification& specification, const std::string& parameter);
// The same where the model's own files are read.
TensorSlice slice_in_model(const ModelSpecification& specification, const std::string& parameter);

// What a tensor of a Hugging Face file is that is no parameter's: nothing where the model does not
// know it, the empty string where the model computes it or has no use for it, or the name of the
// tensor whose copy it is (the head of a model whose embeddings are tied).
std::optional<std::string> spare_tensor(const ModelSpecification& specification,
                                        const std::string& name);

}  // namespace colossal::models
