// Chat templates: render a conversation into one prompt, in the form that the model's folder
// defines.
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
  bool add_generation_prompt = true;  // end the text with the header of the model's answer
  // End the text after the last message's content, without the end of the message, so that the
  // model continues this content.
  bool continue_final_message = false;
  nlohmann::ordered_json tools = nullptr;      // a list, in the form that the template expects
  nlohmann::ordered_json documents = nullptr;  // a list, in the form that the template expects
  // Further variables of the template. They override special tokens, but not the variables above
  // and `messages`.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

// Immutable and thread-safe.
class ChatTemplate {
 public:
  // source: the Jinja text. special_tokens: values of template variables by name, e.g. "<s>" of
  // "bos_token". Throws jinja::TemplateError if `source` is not a valid template.
  explicit ChatTemplate(std::string_view source,
                        std::map<std::string, std::string> special_tokens = {});

  // Reads the template of a model folder: chat_template.jinja, else "chat_template" in
  // tokenizer_config.json, else in chat_template.json (of a list of templates, the one named
  // "default"). Also reads the folder's special tokens. Returns nullopt if the folder has no
  // template. Throws ConfigError naming an invalid file, IoError if a file cannot be read.
  static std::optional<ChatTemplate> read(const std::filesystem::path& folder);

  // Reads the template from `file` (.jinja), and the special tokens from `folder`. Throws
  // ConfigError naming an invalid file, IoError if a file cannot be read.
  static ChatTemplate open(const std::filesystem::path& file, const std::filesystem::path& folder);

  // messages: a list of objects with "role" and "content". Returns the same text as
  // apply_chat_template(tokenize=False) of `transformers`. The text includes special tokens such as
  // "<s>", so encode it with encode(), not encode_prompt(). Throws jinja::TemplateError if the
  // template fails or calls raise_exception(), or if continue_final_message is set and the last
  // message has no text or the template changes it.
  jinja::Rendered render(const nlohmann::ordered_json& messages, const ChatOptions& options) const;

  const std::string& source() const { return source_; }

  // Returns a template with the given source and this template's special tokens, for a template
  // that comes with a request.
  ChatTemplate with_source(std::string_view source) const {
    return ChatTemplate(source, special_tokens_);
  }

 private:
  std::string source_;
  jinja::Template template_;
  std::map<std::string, std::string> special_tokens_;
};

}  // namespace colossal::text
