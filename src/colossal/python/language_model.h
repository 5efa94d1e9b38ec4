// A model in this process that generates texts and embeds them: what colossal.LLM is in C++.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "colossal/memory/tier_config.h"
#include "colossal/python/generation.h"
#include "colossal/serve/engine.h"

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
};

// All functions are thread-safe.
class LanguageModel {
 public:
  // Reads the weights and starts the engine. Throws ConfigError for a folder or an option that does
  // not work, and IoError.
  explicit LanguageModel(const LanguageModelOptions& options);
  ~LanguageModel();
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  // Start a request. body: JSON as POST /v1/completions, /v1/chat/completions and /v1/embeddings of
  // the server take it. Throw ConfigError if it is wrong, and Error after close().
  std::shared_ptr<Generation> complete(const std::string& body);
  std::shared_ptr<Generation> chat(const std::string& body);
  std::shared_ptr<Generation> embed(const std::string& body);
  // Ends the work of a call; may be called after close().
  void cancel(Generation& generation);

  // Returns the tokens of a text as prompts have them, and the text of tokens.
  std::vector<int32_t> encode(const std::string& text) const;
  std::string decode(const std::vector<int32_t>& tokens) const;
  // Reads an adapter (LoRA or a prefix) from a peft folder, under the name by which requests choose
  // it as their "model". Throws ConfigError.
  void load_adapter(const std::string& name, const std::string& folder);
  void unload_adapter(const std::string& name);

  // Returns the name by which requests choose the model itself.
  std::string name() const;
  int64_t max_model_len() const;
  serve::EngineStatistics statistics() const;
  // Ends all requests with an error, and frees the model.
  void close();

 private:
  struct Parts;
  // Throws Error after close(). Lock closing_ before, for as long as the result is used.
  Parts& open_parts() const;
  std::shared_ptr<Generation> generate(const std::string& body, bool chats);

  mutable std::shared_mutex closing_;  // unique: in close()
  std::unique_ptr<Parts> parts_;       // null after close()
};

}  // namespace colossal::python
