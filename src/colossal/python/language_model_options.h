// The settings of a LanguageModel, and what the engine makes of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/memory/tier_config.h"
#include "colossal/models/families.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/inference_model.h"

namespace colossal::python {

// As the arguments of `colossal serve`.
struct LanguageModelOptions {
  std::string folder;          // a Hugging Face folder, or the name of a model in the Hub's cache
  std::string dtype = "auto";  // of weights and activations: auto (the folder's), fp32, bf16, fp64
  std::string quantization = "auto";  // see serve::WeightBits
  std::optional<int64_t> quantization_group;
  std::string device = "auto";       // auto, cpu or gpu
  memory::Offload offload = "none";  // where weights are between their uses
  std::string nvme_path;
  std::string kv_dtype = "auto";  // auto (that of activations) or int8
  std::string kv_bytes;           // such as "2GiB"; "": enough, see EngineOptions::cache_bytes
  int64_t max_model_len = 0, max_num_seqs = 64, max_batch_tokens = 512;  // serve::EngineOptions
  bool prefix_cache = true, batch_invariant = false;
  std::string generation_config;  // a JSON object: fields in the place of the folder's; "": none
  std::vector<std::pair<std::string, std::string>> adapters;  // names and peft folders
  // Speculative decoding: what proposes tokens is "lookup" (earlier text), "eagle" (the head in the
  // folder `draft`) or "none" (the smaller model in `draft`; nothing if that is "").
  std::string speculate = "none", draft;
  int64_t num_drafts = 4;  // most tokens that are proposed at a time
  // --parallel.KEY=VALUE: how the ranks of a launcher hold the model together; empty: each process
  // holds the whole model.
  std::vector<std::string> parallel;
};

// All functions throw ConfigError, which names the setting, if it does not work.

// Returns the model in `folder`, which has weights and reads texts.
models::ModelSpecification resolve_language_model(const LanguageModelOptions& options,
                                                  const std::filesystem::path& folder);
// Returns how the weights in `folder` are read.
serve::InferenceOptions inference_options(const LanguageModelOptions& options,
                                          const std::filesystem::path& folder);
// Returns the object of options.generation_config; an empty one if there is none.
nlohmann::json changes_of_generation(const LanguageModelOptions& options);

// The model or head of options.draft, which proposes tokens. It must outlive the engine.
struct DraftModel {
  // like: how the weights of the model itself are read.
  DraftModel(const LanguageModelOptions& options, const serve::InferenceOptions& like);

  const models::ModelSpecification specification;
  serve::InferenceModel model;
};

// Returns the engine's options for `model`. draft: null if options.draft is empty.
serve::EngineOptions engine_options(const LanguageModelOptions& options,
                                    const serve::InferenceModel& model, const DraftModel* draft);

}  // namespace colossal::python
