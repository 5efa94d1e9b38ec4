// The model that a server offers, as its routes see it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "colossal/serve/request.h"
#include "colossal/serve/sampling.h"
#include "colossal/server/adapter_registry.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/tokenizer.h"
#include "colossal/text/tool_call_parser.h"

namespace colossal::server {

class ServedModel {
 public:
  // name: what requests call the model. max_length: the most tokens of prompt and answer. Reads the
  // folder's tokenizer, chat template, sampling defaults and end tokens. Throws ConfigError,
  // IoError.
  ServedModel(const std::filesystem::path& folder, std::string name, int64_t max_length,
              int64_t vocabulary);

  // Set once the model is loaded.
  void set_adapters(std::unique_ptr<AdapterRegistry> adapters) { adapters_ = std::move(adapters); }
  AdapterRegistry& adapters() { return *adapters_; }
  const AdapterRegistry& adapters() const { return *adapters_; }
  // Set once it is known how many tokens there is room for.
  void set_max_length(int64_t length) { max_length_ = length; }

  const std::string& name() const { return name_; }
  // The model's and its adapters', for people: "a", "b".
  std::string quoted_names() const;
  int64_t max_length() const { return max_length_; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t created() const { return created_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const text::ChatTemplate* chat_template() const {
    return chat_template_ ? &*chat_template_ : nullptr;
  }
  // generation_config.json's, where it has them.
  const serve::SamplingOptions& sampling() const { return sampling_; }
  serve::Pooling pooling() const { return pooling_; }  // where a request says none
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }
  bool is_special(int32_t token) const { return special_.contains(token); }
  // The form in which its chat template makes it write calls of tools.
  text::ToolCallForm tool_call_form() const { return tool_call_form_; }
  // Whether a token is part of that form, though it may be a special one.
  bool is_call_marker(int32_t token) const { return call_markers_.contains(token); }

  // The bytes that a token stands for within a text.
  std::string bytes_of(int32_t token) const;

  // Tokens of a prompt. Throws ApiError where it is not UTF-8 or is longer than any prompt that
  // fits, before time is spent on it.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const;
  // Tokens of a conversation. What users write is never taken for a special token. Throws ApiError
  // where there is no template or it refuses the messages.
  std::vector<int32_t> encode_chat(const nlohmann::ordered_json& messages,
                                   const text::ChatOptions& options) const;

 private:
  void check_size(size_t bytes) const;
  void break_special_tokens(nlohmann::ordered_json& value) const;

  std::string name_;
  int64_t max_length_, vocabulary_, created_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_template_;
  serve::SamplingOptions sampling_;
  serve::Pooling pooling_;
  std::vector<int32_t> end_tokens_;
  std::map<int32_t, std::string> special_;
  text::ToolCallForm tool_call_form_ = text::ToolCallForm::none;
  std::set<int32_t> call_markers_;
  std::unique_ptr<AdapterRegistry> adapters_ = std::make_unique<AdapterRegistry>();
};

}  // namespace colossal::server
