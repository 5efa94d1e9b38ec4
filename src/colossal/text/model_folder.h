// What a model was taught, besides its weights: the tokenizer, the chat template, the tokens that
// end a text and the settings of generation, as the files of its Hugging Face folder say. All
// commands read a folder through this class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/text/chat_template.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal::text {

inline constexpr const char* kGenerationConfigFile = "generation_config.json";

// The folder of a model and, if an adapter is applied to the model, the folder of the adapter: what
// the adapter's folder has takes the place of what the model's folder has. All functions throw
// IoError if a file exists and cannot be read, and ConfigError naming an invalid file.
class ModelFolder {
 public:
  // adapter: empty: no adapter.
  ModelFolder(std::filesystem::path model, std::filesystem::path adapter = {})
      : model_(std::move(model)), adapter_(std::move(adapter)) {}
  ModelFolder(const std::string& model, const std::string& adapter = {})
      : ModelFolder(std::filesystem::path(model), std::filesystem::path(adapter)) {}

  const std::filesystem::path& model() const { return model_; }
  // Returns the folder whose tokenizer is used.
  const std::filesystem::path& tokenizer_folder() const;
  // Throws as make_tokenizer().
  std::unique_ptr<Tokenizer> tokenizer() const;
  // Returns the source of all chat templates.
  std::vector<NamedTemplate> chat_templates() const;
  // Returns the chat template; nullopt if there is none.
  std::optional<ChatTemplate> chat_template() const;

  // Returns the tokens that end a generated text: "eos_token_id" (a number or a list) of
  // generation_config.json; without it, that of config.json. If the tokenizer's files name an
  // "eos_token" that is not among them, it ends a text too, and the log says so: programs that
  // train a model may change it alone. Without any of these, the tokenizer's end-of-text token.
  // tokenizer: of this folder, or the one that is used with it.
  std::vector<int32_t> end_tokens(const Tokenizer& tokenizer) const;

  // The settings of generation.
  struct GenerationConfig {
    std::filesystem::path file;  // the file that has the fields
    nlohmann::json fields;       // an object; null if there are no settings
  };
  // Returns the fields of generation_config.json; without this file those of config.json, which
  // has them in folders of older versions of `transformers`.
  GenerationConfig generation_config() const;

  // Returns the files besides weights and config.json that a copy of the model needs: those of the
  // tokenizer, with chat templates, and generation_config.json.
  TokenizerFiles files() const;

 private:
  // Returns the adapter's file if there is one, else the model's, which need not exist.
  std::filesystem::path find(const char* name) const;
  const std::filesystem::path& template_folder() const;

  std::filesystem::path model_, adapter_;
};

}  // namespace colossal::text
