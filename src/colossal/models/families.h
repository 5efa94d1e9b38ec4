// Which model a run asks for, and how it is made.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/adapters/lora.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/models/decoder_config.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models {

// The low-rank adapters of a model, which alone are trained then.
struct ModelAdapter {
  adapters::LoraSettings settings;
  std::vector<adapters::Product> products;  // that have one
  std::filesystem::path weights;            // a folder of peft, or empty: random ones, which add 0
};

// A model as a value.
struct ModelSpecification {
  // Every field of config.json that shapes the computation, and by which class a folder opens.
  nlohmann::json config;
  nlohmann::json other_fields;  // of a folder's config.json: what its checkpoints pass on
  DecoderConfig decoder;
  ModelFacts facts;
  std::filesystem::path weights;  // a folder with weights, or empty: random weights
  // Parameters that the folder has no weights for: a head that its model does not have.
  std::vector<std::string> without_weights = {};
  std::optional<ModelAdapter> adapter = std::nullopt;
};

struct ModelRequest {
  std::string preset;                                   // one of preset_names(), or empty
  std::string path;                                     // a folder with config.json, or empty
  nlohmann::json overrides = nlohmann::json::object();  // fields of config.json
  // By field, how an error would begin that is about an override: "run.toml:3: model.n_layer = 0".
  std::map<std::string, std::string> override_places = {};
  double dropout = -1;  // >= 0: all of the model's dropout probabilities
  // A model that scores texts, with a new head where the folder's model predicts them.
  bool score_head = false;
  // A model that has a head for values too, new where the folder has none.
  bool value_head = false;
};

std::vector<std::string> preset_names();

// Throws ConfigError: both or neither of preset and path, an unknown preset (naming the nearest),
// no config.json, an unknown family, a field that is missing, absurd or not known, an override of
// no such field, a folder with weights that are not read.
ModelSpecification resolve_model(const ModelRequest& request);

std::unique_ptr<LanguageModel> build_model(const ModelSpecification& specification,
                                           nn::Builder& build);

// All products that can be adapted: those of its blocks.
std::vector<adapters::Product> list_products(const ModelSpecification& specification);

// Gives it this adapter, or none, and what its facts say then.
void set_adapter(ModelSpecification& specification, std::optional<ModelAdapter> adapter);

// With the adapter of a folder of peft. Throws ConfigError for one that is not read, or of another
// model.
ModelSpecification with_adapter(ModelSpecification specification,
                                const std::filesystem::path& folder);

// How its layers are cut among the ranks of a tensor-parallel group.
parallel::Sharding sharding(const ModelSpecification& specification);

// Where Hugging Face files have a parameter; those of peft, one of an adapter.
TensorSlice slice_in_files(const ModelSpecification& specification, const std::string& parameter);

// What a tensor of a Hugging Face file is that is no parameter's: nothing where the model does not
// know it, the empty string where the model computes it or has no use for it, or the name of the
// tensor whose copy it is (the head of a model whose embeddings are tied).
std::optional<std::string> spare_tensor(const ModelSpecification& specification,
                                        const std::string& name);

}  // namespace colossal::models
