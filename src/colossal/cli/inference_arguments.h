// Arguments shared by the commands that use a trained model (generate, serve, evaluate, convert),
// and functions that open the model. An argument is a command-line option such as --adapter, or a
// configuration key that is named as in run.toml. Each function add_...() adds options to a
// command; when the command line is parsed, the options write their values to the function's second
// argument, which must outlive the command.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/cli/inference_ranks.h"
#include "colossal/job/parallel_config.h"
#include "colossal/memory/tier_config.h"
#include "colossal/models/families.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/inference_model.h"
#include "colossal/serve/weight_bits.h"

namespace colossal::cli {

// Configuration keys for a model on one rank.
struct InferenceConfig {
  std::string compute = "auto";                 // precision.compute
  memory::Offload offload_parameters = "none";  // memory.offload_parameters
  // memory.table_rows: a vocabulary table with more rows is cut into several parameters of at most
  // this many rows. 0: it is not cut.
  int64_t table_rows = 0;
  std::string nvme_path;  // memory.nvme_path
  // train.threads; nullopt: the available cores, divided by the number of ranks on this host.
  std::optional<int64_t> threads;
};

// Configuration keys for a model that is partitioned over ranks.
struct ModelRanksConfig : InferenceConfig {
  ParallelConfig parallel;  // parallel.*
};

// The values of --quantize and --quantize-group.
struct QuantizeArguments {
  // auto: weights stay as the folder stores them. none: weights that the folder stores quantized
  // are dequantized. int8, int4, fp8 or int8-dynamic: weights are quantized while they are read.
  std::string type = "auto";
  std::optional<int64_t> group;  // input features that share a scale, 0: all; nullopt: not given
};

inline const serve::QuantizationNames kQuantizeNames{"--quantize", "--quantize-group"};

// The values of --speculate, --draft and --num-drafts.
struct SpeculationArguments {
  // What proposes draft tokens. lookup: earlier occurrences of the last tokens. eagle: the draft
  // head in the folder `draft`. none: the draft model in the folder `draft`; if `draft` is empty,
  // there is no speculative decoding.
  std::string kind = "none";
  std::string draft;   // a folder; must not be empty with eagle, must be empty with lookup
  int64_t drafts = 4;  // draft tokens per step
};

// An opened draft model or draft head, and the engine's options for speculative decoding. Must
// outlive the engine.
struct OpenedSpeculation {
  std::unique_ptr<serve::InferenceModel> model;  // null: none
  serve::Speculation speculation;
};

// Adds the option --kv-type, the type of cached keys and values: auto (the type in which the model
// computes) or int8. The option sets `int8` to true for int8, to false for auto.
void add_key_value_type(CLI::App& command, bool& int8);

// Adds --speculate, --draft and --num-drafts.
void add_speculation(CLI::App& command, SpeculationArguments& arguments);

// Reads the draft model or draft head in the folder of --draft, if given. bits: how its weights are
// stored; commands pass the value that they pass to open_model(). Throws ConfigError, IoError.
OpenedSpeculation open_speculation(const SpeculationArguments& arguments,
                                   const InferenceConfig& config, at::Device device,
                                   const serve::WeightBits& bits);

// Logs the acceptance rate of draft tokens, if the engine uses speculative decoding.
void log_acceptance_rate(const serve::Engine& engine);

// Adds --quantize and --quantize-group.
void add_quantize(CLI::App& command, QuantizeArguments& arguments);

// Returns what --quantize and --quantize-group ask for. Throws ConfigError as
// serve::resolve_weight_bits().
serve::WeightBits resolve_weight_bits(const QuantizeArguments& arguments);

// Add the keys of a config to `schema`. When `schema` reads values, it writes them to `config`,
// which must outlive it.
void describe(ConfigSchema& schema, InferenceConfig& config);
void describe(ConfigSchema& schema, ModelRanksConfig& config);

// Returns the help text of the keys of a config. Config: InferenceConfig or a class derived from it
// that has a describe().
template <class Config>
std::string help_of_keys() {
  Config config;
  ConfigSchema schema;
  describe(schema, config);
  return "Keys with the same names as in a training run:\n\n" + schema.help();
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

// Validates the config without reading files, and sets the number of threads that this process
// computes with. Throws ConfigError.
void prepare(const InferenceConfig& config);
// Like prepare(config), for one of several ranks: the ranks of a host share its cores.
void prepare(const InferenceConfig& config, const InferenceRanks& ranks);

// Adds the option --ranks; without it, `ranks` is left unchanged. what: the beginning of its help
// text, a sentence without the final period.
void add_ranks_option(CLI::App& command, std::optional<int>& ranks,
                      const std::string& what =
                          "Hold the model on this many ranks of this machine; must equal "
                          "parallel.tp x parallel.pp [1]");

// Returns the specification of the model in a folder. purpose: what the weights are needed for,
// such as "generate"; for the error message. adapter: folder of an adapter to apply; empty: none.
// Throws ConfigError if `folder` is not a model folder or has no weights, or if the adapter is not
// supported or belongs to another model.
models::ModelSpecification resolve_trained_model(const std::string& folder,
                                                 const std::string& purpose,
                                                 const std::string& adapter = "");
// Throws ConfigError if the model reads images. command: the command that needs a model of texts.
void require_texts(const models::ModelSpecification& specification, const std::string& command);
// Throws ConfigError unless the model predicts the next token of a text: an encoder does not, nor
// does a model that gives texts scores. command: the command that needs such a model.
void require_decoder(const models::ModelSpecification& specification, const std::string& command);

// Adds the option --adapter.
void add_adapter_option(CLI::App& command, std::string& adapter);

// Returns the dtype of weights and activations that precision.compute selects. "auto" selects the
// dtype that the model's folder stores (serve::compute_type()), or bf16 if that is fp16.
at::ScalarType resolve_compute_type(const models::ModelSpecification& specification,
                                    const InferenceConfig& config);

// Reads the weights of a model that computes on `device`. progress: called with the number of
// tensors read so far and of all tensors; empty: not called. Throws what the constructor of
// serve::InferenceModel throws.
//
// Logs the size of the weights if they are quantized in memory. If bits.as_stored is true but the
// weights are dequantized, because the kernels do not support the folder's format, logs the size
// and this reason. Logs the tiers of the weights if some are stored off the device.
std::unique_ptr<serve::InferenceModel> open_model(
    const models::ModelSpecification& specification, const InferenceConfig& config,
    at::Device device, const serve::WeightBits& bits = {},
    std::function<void(int64_t done, int64_t total)> progress = {});

// Like open_model(), but connects `ranks` (InferenceRanks::connect()) and partitions the model over
// them. strategy: resolved from parallel.*. Only the first rank logs and calls `progress`.
// Collective. Also throws what connect() throws.
std::unique_ptr<serve::InferenceModel> open_model_over_ranks(
    const models::ModelSpecification& specification, const ModelRanksConfig& config,
    const Strategy& strategy, InferenceRanks& ranks, const serve::WeightBits& bits = {},
    const std::function<void(int64_t done, int64_t total)>& progress = {});

// Returns `options` with the type and device of the model, and with an idle_message_interval of at
// most a quarter of parallel.timeout.
serve::EngineOptions engine_options(const serve::InferenceModel& model,
                                    const ModelRanksConfig& config,
                                    serve::EngineOptions options = {});

}  // namespace colossal::cli
