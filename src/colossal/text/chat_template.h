// Chat templates: how a model's folder wants a conversation written as one text.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/text/jinja/template.h"

namespace colossal::text {

struct ChatOptions {
  bool add_generation_prompt = true;    // the text ends where the model's answer begins
  bool continue_final_message = false;  // the text ends within the last message
  nlohmann::ordered_json tools = nullptr;
  nlohmann::ordered_json documents = nullptr;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // more of them
};

class ChatTemplate {
 public:
  // special_tokens: variables such as "bos_token". Throws jinja::TemplateError.
  explicit ChatTemplate(std::string_view source,
                        std::map<std::string, std::string> special_tokens = {});

  // Reads a folder's template: chat_template.jinja, else that of tokenizer_config.json or
  // chat_template.json, with the folder's special tokens. Nothing if the folder has none. Throws
  // ConfigError naming the file, IoError for a file that cannot be read.
  static std::optional<ChatTemplate> read(const std::filesystem::path& folder);

  // Reads a template from a file of its own (.jinja), with the special tokens of the folder. Throws
  // ConfigError naming the file, IoError.
  static ChatTemplate open(const std::filesystem::path& file, const std::filesystem::path& folder);

  // messages: a list of objects with "role" and "content". The text is what `transformers`'
  // apply_chat_template(tokenize=False) gives; it holds its special tokens itself. Throws
  // jinja::TemplateError, also where the template refuses the messages.
  jinja::Rendered render(const nlohmann::ordered_json& messages, const ChatOptions& options) const;

  const std::string& source() const { return source_; }

  // Another template with the same special tokens: one that comes with a request.
  ChatTemplate with_source(std::string_view source) const {
    return ChatTemplate(source, special_tokens_);
  }

 private:
  std::string source_;
  jinja::Template template_;
  std::map<std::string, std::string> special_tokens_;
};

}  // namespace colossal::text
