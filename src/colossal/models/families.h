// The entry point to models: resolve_model() reads the config.json of a folder, or a preset, and
// checks it; build_model() constructs the layers. Also says how parameters are named in Hugging
// Face and peft files, and adds adapters.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "colossal/adapters/lora.h"
#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/prefix.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/models/model.h"
#include "colossal/models/stored_form.h"
#include "colossal/models/text_tower.h"
#include "colossal/models/transformer_config.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models {

// The adapter of a model: low-rank weights for some layers (LoRA), or a prefix. The model's own
// parameters are frozen, except those in `trained`.
struct ModelAdapter {
  adapters::LoraSettings settings;
  std::vector<adapters::Product> products;  // the layers that have an adapter; see list_products()
  std::vector<std::string> trained = {};    // names of the model's parameters that are not frozen
  // If set, the adapter is this prefix. The fields above then have their defaults: a prefix adapts
  // no products, and all of the model's own parameters are frozen.
  std::optional<adapters::PrefixSettings> prefix = std::nullopt;
  // Type to which the frozen linear weights of the model's blocks are quantized; nullopt: they are
  // not quantized. Not stored in an adapter's folder.
  std::optional<ops::PackedType> base = std::nullopt;
  // peft folder with the adapter's weights; empty: the adapter is newly initialized.
  std::filesystem::path weights;

  // Returns whether a run that starts with this adapter can use the model without the adapter as
  // its reference model, so that no second copy of the weights is needed. True if the adapter is
  // newly initialized, and the run changes no weights of the model itself (with PiSSA it does).
  bool base_is_reference() const { return weights.empty() && !settings.pissa && trained.empty(); }
};

// Everything that defines a model.
struct ModelSpecification {
  // All fields of config.json that affect the computation, and the transformers class that loads
  // the model.
  nlohmann::json config;
  // The other fields of the given config.json, which are copied to checkpoints.
  nlohmann::json other_fields;
  TransformerConfig transformer;
  // Of a model of two towers: its tower for texts. `transformer` is then the tower for images.
  std::optional<TextTower> text_tower = std::nullopt;
  ModelFacts facts;  // of the model with its adapter
  bool reads_texts() const { return text_tower || !transformer.patches; }
  // Folder of the model's weights; empty: the weights are newly initialized.
  std::filesystem::path weights;
  // If `weights` is set: names of the parameters that are not in the folder and are newly
  // initialized, such as those of a new head.
  std::vector<std::string> newly_initialized = {};
  // If `weights` is set: how the names of the folder's tensors differ from those of the class that
  // config["architectures"] names. missing_prefix: what they lack at their beginning, e.g. "bert.".
  // old_norm_names: whether norms are named LayerNorm.gamma and LayerNorm.beta, as in the first
  // releases of BERT, instead of LayerNorm.weight and LayerNorm.bias.
  std::string missing_prefix = {};
  bool old_norm_names = false;
  std::optional<ModelAdapter> adapter = std::nullopt;
};

// The model that a user asks for; section [model] of a run.toml.
struct ModelRequest {
  // One of preset_names(); empty if `path` is set.
  std::string preset;
  // A folder with config.json; empty if `preset` is set.
  std::string path;
  nlohmann::json overrides = nlohmann::json::object();  // fields that replace those of config.json
  // For each overridden field, how error messages about it begin: "run.toml:3: model.n_layer = 0".
  std::map<std::string, std::string> override_places = {};
  double dropout = -1;  // replaces all dropout probabilities of the model; -1: keeps them
  // If not empty: builds a model that gives a text one score for each of these labels
  // (TransformerConfig::scores), such as a reward model (one label) or a classifier. The head is
  // newly initialized if the folder's model predicts tokens. problem_type: the field of this name
  // of its config.json; empty: left out.
  std::vector<std::string> labels = {};
  std::string problem_type = {};
  // Whether `labels` replace other labels that the folder's model has: the head is then newly
  // initialized.
  bool replace_labels = false;
  // Whether the model, if it reads images, is to be pretrained. One of a family of two towers then
  // has both (ModelSpecification::text_tower). Any other reconstructs masked patches
  // (TransformerConfig::reconstructs); the head and the mask token are newly initialized if the
  // folder has none. Not together with `labels`.
  bool pretrains = false;
  // Whether to add a value head (TransformerConfig::value_head). The head is newly initialized if
  // the folder has none.
  bool value_head = false;
  // Whether to build an EAGLE draft model (TransformerConfig::is_draft_head). If the folder holds a
  // target model instead of a draft model, the draft model gets the target's embedding, final norm
  // and head, and one newly initialized block with the settings of the target's first block.
  bool draft_head = false;
};

// Returns the names of all presets: published models whose config.json is built in.
std::vector<std::string> preset_names();

// Reads and checks the config.json of the model. Reads no weights. Throws ConfigError: if both or
// neither of preset and path are given; for an unknown preset (naming the nearest one), a missing
// config.json, or an unknown family; for a missing or invalid field, or an override of an unknown
// field; for weights in an unsupported format; and for a draft model's folder without draft_head.
// Logs which fields of config.json nothing reads.
ModelSpecification resolve_model(const ModelRequest& request);

// Returns how the weights in a folder are quantized, from its config.json. Without a config.json,
// they are not quantized. Throws ConfigError if the quantization is not supported.
StoredForm stored_form_of(const std::filesystem::path& folder);

// Constructs the model's layers, with its adapter, by `build`. The parameters are in
// build.parameters().
std::unique_ptr<Model> build_model(const ModelSpecification& specification, nn::Builder& build);

// Returns everything that can have an adapter: the token embedding, the linear layers and stacks of
// experts of the blocks, and the heads.
std::vector<adapters::Product> list_products(const ModelSpecification& specification);

// Returns ModelAdapter::trained for `modules`: the parameters of these modules, by their names in
// the model, such as "head.weight". modules: names as in the model's files, such as "lm_head".
// adapted: the products that have an adapter. key: the configuration key that lists
// `modules`, with which messages begin. Throws ConfigError if a name matches no module, if a module
// has an adapter, or if a module's weights are shared by the token embedding and the head.
std::vector<std::string> list_trained(const ModelSpecification& specification,
                                      const std::vector<std::string>& modules,
                                      const std::vector<adapters::Product>& adapted,
                                      const std::string& key);

// Returns the model's sizes that a prefix must match: layers, heads of keys, and features of a
// head.
adapters::PrefixedModel prefixed_model(const ModelSpecification& specification);

// Sets specification.adapter (nullopt: removes it), and updates specification.facts accordingly. If
// the adapter has a folder with weights, removes its `trained` parameters from
// specification.newly_initialized, because they are read from that folder. Throws ConfigError for a
// prefix that the model does not support.
void set_adapter(ModelSpecification& specification, std::optional<ModelAdapter> adapter);

// Returns `specification` with the adapter of a peft folder. Throws ConfigError if the adapter is
// not supported or belongs to another model.
ModelSpecification with_adapter(ModelSpecification specification,
                                const std::filesystem::path& folder);

// Returns how tensor parallelism shards the layers of the model's towers.
parallel::Shardings shardings(const ModelSpecification& specification);

// Returns where a run that trains this model stores a parameter: in the model's own files or, for
// parameters of an adapter and for ModelAdapter::trained, in peft files. parameter: its name in the
// model, such as "blocks.3.query.weight".
TensorSlice slice_in_files(const ModelSpecification& specification, const std::string& parameter);
// Returns the same as slice_in_files(), except for ModelAdapter::trained: for these, returns where
// the model's own files (in the folder specification.weights) store the parameter.
TensorSlice slice_in_model(const ModelSpecification& specification, const std::string& parameter);

// Returns whether a parameter belongs to the head, which comes after the final norm. parameter: its
// name in the model.
bool is_of_head(const std::string& parameter);
// Returns the labels that transformers gives to `count` scores: "LABEL_0", "LABEL_1", ...
std::vector<std::string> numbered_labels(int64_t count);
// Asks for the model to which an adapter belongs: sets request.labels and request.problem_type to
// those of the adapter; to none if its model predicts tokens.
void ask_for_labels_of(const adapters::AdaptedModel& adapted, ModelRequest& request);
// Returns the names of the tensors, in the folder specification.weights, of the head with which the
// model would predict tokens. Models that give scores do not have them.
std::set<std::string> tensors_of_token_head(const ModelSpecification& specification);

// Explains why no parameter maps to the tensor `name` of a Hugging Face file. Returns "" if the
// model ignores the tensor or computes its values itself. Returns the name of another tensor if
// this tensor is a copy of it (the head of a model with tied embeddings). Returns nullopt if the
// tensor is unknown.
std::optional<std::string> explain_unmapped_tensor(const ModelSpecification& specification,
                                                   const std::string& name);

}  // namespace colossal::models
