// Chat templates: the Jinja program in a model's folder that renders a conversation into one
// prompt.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/text/jinja/template.h"
#include "colossal/text/tokenizer/special_text_guard.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::text {

// What a chat template renders besides the messages.
struct ChatOptions {
  // Whether to end the prompt with the header of the assistant's message, so that the model writes
  // this message.
  bool add_generation_prompt = true;
  // Whether to end the prompt right after the last message's content, without the end-of-message
  // marker, so that the model continues this content. Set add_generation_prompt to false with it;
  // render() does not check this.
  bool continue_final_message = false;
  // Lists in the form that the template expects; null: none.
  nlohmann::ordered_json tools = nullptr;      // tools that the model may call
  nlohmann::ordered_json documents = nullptr;  // texts for retrieval-augmented generation
  // Object of further template variables by name. They override special tokens of equal name, but
  // not `messages` and the variables that are set from the fields above.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  // Whether special tokens in the assistant's messages are special tokens: the messages are what a
  // model is trained on (see ChatTemplate::protect()).
  bool trusts_assistant = false;
};

// A chat template of a model folder. A folder may have several, for different purposes.
struct NamedTemplate {
  std::string name;  // "default", "tool_use" ...
  std::string source;
  std::filesystem::path file;  // where it was read
};

inline constexpr const char* kDefaultTemplate = "default";
inline constexpr const char* kToolTemplate = "tool_use";  // renders conversations with tools

// Reads the templates of a model folder: chat_template.jinja ("default") and
// additional_chat_templates/NAME.jinja; without these files, "chat_template" in
// tokenizer_config.json, or a list of named templates there; without it, "chat_template" in
// chat_template.json. Empty if the folder has none. Throws ConfigError naming an invalid file,
// IoError if a file cannot be read.
std::vector<NamedTemplate> read_chat_templates(const std::filesystem::path& folder);

// A compiled chat template with the texts of the model's special tokens. Immutable and thread-safe.
class ChatTemplate {
 public:
  // source: the Jinja program. special_tokens: text of each special token by its template variable,
  // such as "<s>" by "bos_token". Throws jinja::TemplateError if `source` is not a valid template.
  explicit ChatTemplate(std::string_view source,
                        std::map<std::string, std::string> special_tokens = {});

  // Takes the templates "default" and, for conversations with tools, "tool_use" of
  // read_chat_templates(folder), and the special tokens of the folder `tokens`. Returns nullopt if
  // there is no default. Throws ConfigError naming an invalid file, IoError if a file cannot be
  // read.
  static std::optional<ChatTemplate> read(const std::filesystem::path& folder,
                                          const std::filesystem::path& tokens);
  // The same, with the special tokens of this folder.
  static std::optional<ChatTemplate> read(const std::filesystem::path& folder) {
    return read(folder, folder);
  }

  // Reads the template from `file` (Jinja), and the special tokens from the model folder `folder`.
  // Throws ConfigError naming an invalid file, IoError if a file cannot be read.
  static ChatTemplate open(const std::filesystem::path& file, const std::filesystem::path& folder);

  // Returns the prompt, and the parts of it that {% generation %} blocks of the template wrote
  // (jinja::Rendered). The prompt is the text that apply_chat_template(tokenize=False) of
  // `transformers` returns. messages: list of objects with "role" and "content". The first member
  // of a message among "reasoning_content", "thinking" and "reasoning" that is not null is passed
  // to the template as "reasoning_content" and, if the message has no "thinking", also as
  // "thinking". The prompt includes special tokens such as "<s>". Tokenize the prompt with
  // Tokenizer::encode(), because encode_prompt() would add special tokens again. Throws
  // jinja::TemplateError if the template fails or calls raise_exception(); if
  // continue_final_message is set, also if the last message has no text, or if the template changes
  // this text or leaves it out.
  jinja::Rendered render(const nlohmann::ordered_json& messages, const ChatOptions& options) const;

  // Sets a variable of the template, such as "eos_token".
  void set_special_token(const std::string& name, const std::string& text) {
    special_tokens_[name] = text;
  }

  // Call before rendering, with the model's special tokens: their texts in messages, tools,
  // documents and variables become breaks (jinja::Rendered).
  void protect(const std::vector<SpecialToken>& tokens);
  // Returns a template that renders the same, after protect(tokens).
  ChatTemplate protecting(const std::vector<SpecialToken>& tokens) const;

  // Returns the Jinja program; with tools, that of conversations with tools.
  const std::string& source(bool tools = false) const {
    return tools && tool_use_ ? tool_use_->source : default_.source;
  }

 private:
  struct Program {
    explicit Program(std::string_view text) : source(text), compiled(text) {}
    std::string source;
    jinja::Template compiled;
  };

  Program default_;
  std::optional<Program> tool_use_;                    // nullopt: default_ renders tools too
  std::map<std::string, std::string> special_tokens_;  // text by template variable
  SpecialTextGuard guard_;
};

}  // namespace colossal::text
