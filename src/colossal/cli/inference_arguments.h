// Shared by the commands that use a trained model: the keys of a run.toml that they take, under the
// same names, and the way from a folder to a model.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/booster/parallel_config.h"
#include "colossal/cli/inference_ranks.h"
#include "colossal/memory/tier_config.h"
#include "colossal/models/families.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/inference_model.h"

namespace colossal::cli {

struct InferenceConfig {  // of one rank
  std::string compute = "auto";
  memory::Offload offload_parameters = "none";
  int64_t table_rows = 0;
  std::string nvme_path;
  std::optional<int64_t> threads;
};

// Of ranks that hold a model together.
struct ModelRanksConfig : InferenceConfig {
  ParallelConfig parallel;
};

// The values of --quantize and --quantize-group.
struct QuantizeArguments {
  std::string type = "auto";
  std::optional<int64_t> group;
};

// In how many bits the weights of products are kept.
struct WeightBits {
  std::optional<ops::Quantization> quantization;  // unset: as the folder has them, or as numbers
  bool as_stored = false;
};

// The values of --speculate, --draft and --num-drafts.
struct SpeculationArguments {
  std::string kind = "none";
  std::string draft;  // the folder of a model
  int64_t drafts = 4;
};

// The engine's options, and the model that guesses; null: no model does.
struct OpenedSpeculation {
  std::unique_ptr<serve::InferenceModel> model;
  serve::Speculation speculation;
};

// --kv-type
void add_key_value_type(CLI::App& command, bool& int8);

void add_speculation(CLI::App& command, SpeculationArguments& arguments);

// Reads the weights of --draft, in as many bits as the model's. Throws ConfigError.
OpenedSpeculation open_speculation(const SpeculationArguments& arguments,
                                   const InferenceConfig& config, at::Device device,
                                   const WeightBits& bits);

// Says how many guesses were right, if the engine guesses.
void say_speculation(const serve::Engine& engine);

void add_quantize(CLI::App& command, QuantizeArguments& arguments);

// How to round weights of this type, in groups of the type's own size unless one is given. Throws
// ConfigError for what is not supported, naming what is.
ops::Quantization resolve_quantization(const std::string& type, std::optional<int64_t> group);
WeightBits resolve_weight_bits(const QuantizeArguments& arguments);

void describe(ConfigSchema& schema, InferenceConfig& config);
void describe(ConfigSchema& schema, ModelRanksConfig& config);

// Returns the help of the keys that describe() declares for a config.
template <class Config>
std::string help_of_keys() {
  Config config;
  ConfigSchema schema;
  describe(schema, config);
  return "Keys, with the names of a training run's:\n\n" + schema.help();
}

// Makes a config of flags "--section.key=value". Throws ConfigError for an unknown key or a wrong
// value.
template <class Config>
Config parse_flags(const std::vector<std::string>& flags) {
  Config config;
  ConfigSchema schema;
  describe(schema, config);
  for (const std::string& flag : flags) schema.set_flag(flag);
  return config;
}

// Checks what can be checked before a file is read, and lets this process compute with as many
// threads as the config says. It may start the process again: call it first. Throws ConfigError.
void prepare(const InferenceConfig& config);
// The same of one of several ranks.
void prepare(const InferenceConfig& config, const InferenceRanks& ranks);

// --ranks. what: that so many ranks do, a sentence without its end.
void add_ranks_option(CLI::App& command, std::optional<int>& ranks,
                      const std::string& what =
                          "Hold the model on this many ranks of this machine, "
                          "parallel.tp x parallel.pp [1]");

// Throws ConfigError for a folder that is no model's, or one without weights: there is nothing
// `to_do` ("generate") with. adapter: the folder of one, or empty.
models::ModelSpecification resolve_trained_model(const std::string& folder,
                                                 const std::string& to_do,
                                                 const std::string& adapter = "");

// The folder whose tokenizer is meant: the adapter's where it has one, else the model's.
std::string tokenizer_folder(const std::string& model, const std::string& adapter);

// --adapter
void add_adapter_option(CLI::App& command, std::string& adapter);

// The type of weights and activations that precision.compute asks for.
at::ScalarType resolve_compute_type(const models::ModelSpecification& specification,
                                    const InferenceConfig& config);

// Reads the weights, and says on stderr where they rest if that is not on the device, and how many
// bytes they are if they are quantized.
std::unique_ptr<serve::InferenceModel> open_model(
    const models::ModelSpecification& specification, const InferenceConfig& config,
    at::Device device, const WeightBits& bits = {},
    std::function<void(int64_t done, int64_t total)> progress = {});

// The same on `ranks`, which it lets meet. The first one says where weights rest, and has
// `progress`. Collective. strategy: of parallel.*.
std::unique_ptr<serve::InferenceModel> open_model_over_ranks(
    const models::ModelSpecification& specification, const ModelRanksConfig& config,
    const Strategy& strategy, InferenceRanks& ranks, const WeightBits& bits = {},
    const std::function<void(int64_t done, int64_t total)>& progress = {});

// What an engine of the model takes from it and the config.
serve::EngineOptions engine_options(const serve::InferenceModel& model,
                                    const ModelRanksConfig& config,
                                    serve::EngineOptions options = {});

}  // namespace colossal::cli
