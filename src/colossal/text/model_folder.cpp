#include "colossal/text/model_folder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"
#include "colossal/text/taught_text.h"

namespace colossal::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConfigFile = "config.json";

bool is_there(const fs::path& file) {
  std::error_code ignored;  // a file that cannot be looked up counts as missing
  return fs::exists(file, ignored);
}

// Returns the fields of a JSON file; null if there is no such file.
json read_fields(const fs::path& file) {
  if (!is_there(file)) return nullptr;
  json fields = io::read_json(file);
  if (!fields.is_object()) throw ConfigError(file.string() + ": is not a JSON object");
  return fields;
}

json field_of(const fs::path& file, const char* name) {
  const json fields = read_fields(file);
  return fields.is_null() ? json() : fields.value(name, json());
}

int32_t read_token(const json& value, const fs::path& file) {
  if (value.is_number_integer() && value >= 0 && value <= INT32_MAX) return value.get<int32_t>();
  throw ConfigError(
      fmt::format("{}: eos_token_id = {}: must be a token number or a list of token numbers",
                  file.string(), io::show_value(value)));
}

std::vector<int32_t> read_tokens(const json& value, const fs::path& file) {
  if (value.is_null()) return {};
  if (!value.is_array()) return {read_token(value, file)};
  std::vector<int32_t> tokens;
  for (const json& token : value) tokens.push_back(read_token(token, file));
  return tokens;
}

// Removes tokens that the model cannot give.
void leave_out_unknown(const json& vocabulary, const fs::path& file, std::vector<int32_t>& tokens) {
  if (!vocabulary.is_number_integer()) return;
  const auto size = vocabulary.get<int64_t>();
  std::erase_if(tokens, [&](int32_t token) {
    if (token < size) return false;
    log::warn("{}: no text ends with token {}, which is outside the vocabulary of {}",
              file.string(), token, size);
    return true;
  });
}

}  // namespace

fs::path ModelFolder::find(const char* name) const {
  return !adapter_.empty() && is_there(adapter_ / name) ? adapter_ / name : model_ / name;
}

const fs::path& ModelFolder::tokenizer_folder() const {
  return !adapter_.empty() && is_there(adapter_ / kTokenizerFile) ? adapter_ : model_;
}

std::unique_ptr<Tokenizer> ModelFolder::tokenizer() const {
  return make_tokenizer(tokenizer_folder().string());
}

const fs::path& ModelFolder::template_folder() const {
  return !adapter_.empty() && !read_chat_templates(adapter_).empty() ? adapter_ : model_;
}

std::vector<NamedTemplate> ModelFolder::chat_templates() const {
  return read_chat_templates(template_folder());
}

std::optional<ChatTemplate> ModelFolder::chat_template() const {
  return ChatTemplate::read(template_folder(), tokenizer_folder());
}

std::vector<int32_t> ModelFolder::end_tokens(const Tokenizer& tokenizer) const {
  std::vector<int32_t> tokens;
  fs::path named_by;
  for (const fs::path& file : {find(kGenerationConfigFile), model_ / kConfigFile}) {
    if (!tokens.empty()) break;
    tokens = read_tokens(field_of(file, "eos_token_id"), file);
    leave_out_unknown(field_of(model_ / kConfigFile, "vocab_size"), file, tokens);
    named_by = file;
  }
  const int32_t end = tokenizer.end_of_text();
  if (std::ranges::find(tokens, end) != tokens.end()) return tokens;
  const bool is_named = std::ranges::any_of(
      std::array{kTokenizerConfigFile, kSpecialTokensFile}, [&](const char* file) {
        return !field_of(tokenizer_folder() / file, "eos_token").is_null();
      });
  if (!tokens.empty() && !is_named) return tokens;
  if (!tokens.empty()) {
    log::info(
        "a text ends with {} ({}) too: it is the tokenizer's end token, which {} does not name",
        end, tokenizer.decode_continuation(std::array{end}), named_by.string());
  }
  tokens.push_back(end);
  return tokens;
}

ModelFolder::GenerationConfig ModelFolder::generation_config() const {
  const fs::path own = find(kGenerationConfigFile);
  if (is_there(own)) return {own, read_fields(own)};
  json fields = read_fields(model_ / kConfigFile);
  // The length that `transformers` assumes where nothing is said; its older versions wrote it.
  constexpr int kUnset = 20;
  if (fields.is_object() && fields.value("max_length", json()) == kUnset) {
    fields.erase("max_length");
  }
  return {model_ / kConfigFile, std::move(fields)};
}

TokenizerFiles ModelFolder::files() const {
  TokenizerFiles files;
  const fs::path tokenizer = tokenizer_folder() / kTokenizerFile;
  if (is_there(tokenizer)) files = read_tokenizer_files(tokenizer);
  if (template_folder() != tokenizer_folder()) set_chat_templates(files, chat_templates());
  if (const fs::path own = find(kGenerationConfigFile); is_there(own)) {
    files.emplace_back(kGenerationConfigFile, io::read_file(own));
  }
  return files;
}

}  // namespace colossal::text
