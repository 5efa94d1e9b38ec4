// A model in this process that generates texts and embeds them: what colossal.LLM is in C++.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "colossal/python/generation.h"
#include "colossal/python/language_model_options.h"
#include "colossal/serve/engine.h"
#include "colossal/server/score_request.h"

namespace colossal::python {

// All functions are thread-safe.
class LanguageModel {
 public:
  // Reads the weights and starts the engine. Throws ConfigError for a folder or an option that does
  // not work, and IoError. With options.parallel: collective; the first rank then has the engine,
  // and a thread of the others follows it. Also throws CommError.
  explicit LanguageModel(const LanguageModelOptions& options);
  ~LanguageModel();
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  // Returns whether this rank has the engine. The functions below, except close(), throw
  // ConfigError on other ranks.
  bool leads() const;

  // Start a request. body: JSON as POST /v1/completions, /v1/chat/completions, /v1/embeddings,
  // /classify and /score of the server take it. Throw ConfigError if it is wrong, and Error after
  // close().
  std::shared_ptr<Generation> complete(const std::string& body);
  std::shared_ptr<Generation> chat(const std::string& body);
  std::shared_ptr<Generation> embed(const std::string& body);
  std::shared_ptr<Generation> classify(const std::string& body);
  std::shared_ptr<Generation> score(const std::string& body);
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
  // Ends all requests with an error, and frees the model. Other ranks wait here until the first one
  // closes; they throw CommError if one was lost.
  void close();

 private:
  struct Parts;
  // Throws Error after close(), and ConfigError if this rank does not lead. Lock closing_ before,
  // for as long as the result is used.
  Parts& open_parts() const;
  std::shared_ptr<Generation> generate(const std::string& body, bool chats);
  using ReadScoreRequest = server::ScoreRequest (*)(const server::Json&,
                                                    const server::ServedModel&);
  std::shared_ptr<Generation> pool(const std::string& body, ReadScoreRequest read);

  mutable std::shared_mutex closing_;  // unique: in close()
  std::unique_ptr<Parts> parts_;       // null after close()
};

}  // namespace colossal::python
