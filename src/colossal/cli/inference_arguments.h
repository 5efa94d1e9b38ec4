// Arguments shared by the commands that use a trained model: configuration keys, named as in
// run.toml, and functions that open the model.
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

// Keys for a model on a single rank.
struct InferenceConfig {
  std::string compute = "auto";
  memory::Offload offload_parameters = "none";
  int64_t table_rows = 0;
  std::string nvme_path;
  std::optional<int64_t> threads;
};

// Keys for a model that is partitioned over ranks.
struct ModelRanksConfig : InferenceConfig {
  ParallelConfig parallel;
};

// The values of --quantize and --quantize-group.
struct QuantizeArguments {
  std::string type = "auto";
  std::optional<int64_t> group;
};

// How linear weights are stored on the device.
struct WeightBits {
  // How weights are quantized while they are read; nullopt: they are not.
  std::optional<ops::Quantization> quantization;
  // Whether weights that the folder stores quantized stay quantized; see serve::InferenceOptions.
  bool as_stored = false;
};

// The values of --speculate, --draft and --num-drafts.
struct SpeculationArguments {
  std::string kind = "none";
  std::string draft;  // folder of the draft model or draft head
  int64_t drafts = 4;
};

// An opened draft model, and the engine's options for speculative decoding.
struct OpenedSpeculation {
  std::unique_ptr<serve::InferenceModel> model;  // null: no draft model
  serve::Speculation speculation;
};

// Adds the option --kv-type. int8: set to whether the type is int8.
void add_key_value_type(CLI::App& command, bool& int8);

// Adds --speculate, --draft and --num-drafts.
void add_speculation(CLI::App& command, SpeculationArguments& arguments);

// Reads the model or head in the folder of --draft, if given, with `bits` as for the model itself.
// Throws ConfigError, IoError.
OpenedSpeculation open_speculation(const SpeculationArguments& arguments,
                                   const InferenceConfig& config, at::Device device,
                                   const WeightBits& bits);

// Logs the acceptance rate of draft tokens, if the engine uses speculative decoding.
void log_acceptance_rate(const serve::Engine& engine);

// Adds --quantize and --quantize-group.
void add_quantize(CLI::App& command, QuantizeArguments& arguments);

// Returns the quantization of a type name. group: inputs per scale; nullopt: the default of the
// type. Throws ConfigError, listing the supported values, if type or group is unsupported.
ops::Quantization resolve_quantization(const std::string& type, std::optional<int64_t> group);
// Throws ConfigError as resolve_quantization() does, and for --quantize-group without --quantize.
WeightBits resolve_weight_bits(const QuantizeArguments& arguments);

// Add the keys of a config to `schema`, which then writes values to `config`.
void describe(ConfigSchema& schema, InferenceConfig& config);
void describe(ConfigSchema& schema, ModelRanksConfig& config);

// Returns the help text of the keys of a config.
template <class Config>
std::string help_of_keys() {
  Config config;
  ConfigSchema schema;
  describe(schema, config);
  return "Keys, with the names of a training run's:\n\n" + schema.help();
}

// Parses flags "--section.key=value" into a config. Throws ConfigError for an unknown key or an
// invalid value.
template <class Config>
Config parse_flags(const std::vector<std::string>& flags) {
  Config config;
  ConfigSchema schema;
  describe(schema, config);
  for (const std::string& flag : flags) schema.set_flag(flag);
  return config;
}

// Validates the config without reading a file, and sets the number of this process's compute
// threads. Throws ConfigError.
void prepare(const InferenceConfig& config);
// Likewise for a rank of several, which share the cores of a host.
void prepare(const InferenceConfig& config, const InferenceRanks& ranks);

// Adds the option --ranks. what: its help text, a sentence without the final period.
void add_ranks_option(CLI::App& command, std::optional<int>& ranks,
                      const std::string& what =
                          "Hold the model on this many ranks of this machine, "
                          "parallel.tp x parallel.pp [1]");

// Returns the specification of the model in a folder, with an adapter. purpose: for the error
// message, what the weights are needed for ("generate"). adapter: folder of an adapter, or empty.
// Throws ConfigError if the folder is no model folder or has no weights.
models::ModelSpecification resolve_trained_model(const std::string& folder,
                                                 const std::string& purpose,
                                                 const std::string& adapter = "");

// Returns the folder of the tokenizer: the adapter's folder if it has a tokenizer, else the
// model's.
std::string tokenizer_folder(const std::string& model, const std::string& adapter);

// Adds the option --adapter.
void add_adapter_option(CLI::App& command, std::string& adapter);

// Returns the dtype of weights and activations that precision.compute stands for.
at::ScalarType resolve_compute_type(const models::ModelSpecification& specification,
                                    const InferenceConfig& config);

// Reads the model's weights. Logs their size if they are quantized, and their tiers if some are
// stored off the device.
std::unique_ptr<serve::InferenceModel> open_model(
    const models::ModelSpecification& specification, const InferenceConfig& config,
    at::Device device, const WeightBits& bits = {},
    std::function<void(int64_t done, int64_t total)> progress = {});

// Likewise, for a model partitioned over `ranks`; connects the ranks first. Only the first rank
// logs and calls `progress`. strategy: resolved from parallel.*. Collective.
std::unique_ptr<serve::InferenceModel> open_model_over_ranks(
    const models::ModelSpecification& specification, const ModelRanksConfig& config,
    const Strategy& strategy, InferenceRanks& ranks, const WeightBits& bits = {},
    const std::function<void(int64_t done, int64_t total)>& progress = {});

// Returns `options` with the type and device of the model, and with a idle_message_interval that
// suits parallel.timeout.
serve::EngineOptions engine_options(const serve::InferenceModel& model,
                                    const ModelRanksConfig& config,
                                    serve::EngineOptions options = {});

}  // namespace colossal::cli
