#include "colossal/text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "colossal/io/file.h"
#include "colossal/text/jinja/lexer.h"
#include "colossal/text/jinja/python_text.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::array<const char*, 7> kSpecialTokenNames{
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
constexpr std::array<const char*, 3> kReasoningFields{"reasoning_content", "thinking", "reasoning"};
constexpr std::string_view kContinuationMark = "CONTINUE_FINAL_MESSAGE_TAG ";

ordered_json read_object(const fs::path& file) {
  if (!fs::exists(file)) return ordered_json::object();
  ordered_json json = ordered_json::parse(io::read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw ConfigError(file.string() + ": is not a JSON object");
  return json;
}

// Returns the text of a special token: "<s>", or {"content": "<s>", ...}.
std::optional<std::string> token_text(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object() || !value.contains("content")) return {};
  return token_text(value["content"]);
}

std::map<std::string, std::string> read_special_tokens(const fs::path& folder) {
  std::map<std::string, std::string> tokens;
  for (const char* file : {kSpecialTokensFile, kTokenizerConfigFile}) {
    const ordered_json json = read_object(folder / file);
    for (const char* name : kSpecialTokenNames) {
      if (!json.contains(name)) continue;
      if (const auto text = token_text(json[name])) tokens[name] = *text;
    }
  }
  return tokens;
}

// Returns the templates of a field "chat_template": one program, or a list of named ones.
std::vector<NamedTemplate> templates_of(const ordered_json& value, const fs::path& file) {
  if (value.is_string()) return {{kDefaultTemplate, value.get<std::string>(), file}};
  std::vector<NamedTemplate> templates;
  if (!value.is_array()) return templates;
  for (const ordered_json& named : value) {
    const auto text = [&](const char* field) {
      const bool has = named.is_object() && named.contains(field) && named[field].is_string();
      return has ? named[field].get<std::string>() : std::string();
    };
    if (!text("name").empty()) templates.push_back({text("name"), text("template"), file});
  }
  return templates;
}

// Copies a message's reasoning to "thinking" and "reasoning_content", because templates read one or
// the other.
void add_reasoning_names(ordered_json& message) {
  if (!message.is_object()) return;
  for (const char* name : kReasoningFields) {
    if (!message.contains(name) || message[name].is_null()) continue;
    const ordered_json reasoning = message[name];
    if (!message.contains("thinking")) message["thinking"] = reasoning;
    message["reasoning_content"] = reasoning;
    return;
  }
}

// Returns the text that ends the last message: its content, or the last part of its content that is
// text.
std::string& final_text(ordered_json& messages) {
  if (!messages.empty() && messages.back().is_object() && messages.back().contains("content")) {
    ordered_json& content = messages.back()["content"];
    if (content.is_string()) return content.get_ref<std::string&>();
    for (auto part = content.rbegin(); content.is_array() && part != content.rend(); ++part) {
      if (part->is_object() && part->contains("text") && (*part)["text"].is_string()) {
        return (*part)["text"].get_ref<std::string&>();
      }
    }
  }
  throw jinja::TemplateError("continue_final_message: the last message has no text");
}

// Cuts the rendered text at the mark. If the template stripped the space that ends the mark, strips
// white space before the mark as well. final_text: the text of the last message, which must be in
// the rendered text.
void cut_at_mark(jinja::Rendered& rendered, std::string_view final_text) {
  const std::string_view bare = kContinuationMark.substr(0, kContinuationMark.size() - 1);
  const size_t mark = rendered.text.rfind(bare);
  if (mark == std::string::npos ||
      rendered.text.find(jinja::strip_both(final_text)) == std::string::npos) {
    throw jinja::TemplateError(
        "continue_final_message: the template leaves the last message out or changes it");
  }
  const bool keeps_spaces =
      rendered.text.compare(mark, kContinuationMark.size(), kContinuationMark) == 0;
  rendered.text.resize(mark);
  if (!keeps_spaces) rendered.text.resize(jinja::strip_right(rendered.text).size());
  for (jinja::Span& span : rendered.generations) {
    span.end = std::min(span.end, rendered.text.size());
    span.begin = std::min(span.begin, span.end);
  }
}

}  // namespace

std::vector<NamedTemplate> read_chat_templates(const fs::path& folder) {
  std::vector<NamedTemplate> templates;
  if (const fs::path file = folder / kTemplateFile; fs::exists(file)) {
    templates.push_back({kDefaultTemplate, io::read_file(file), file});
  }
  for (const std::string& name : names_of_more_templates(folder)) {
    const fs::path file = folder / name;
    templates.push_back({file.stem().string(), io::read_file(file), file});
  }
  for (const char* name : {kTokenizerConfigFile, "chat_template.json"}) {
    if (!templates.empty()) break;
    const ordered_json json = read_object(folder / name);
    if (json.contains("chat_template")) {
      templates = templates_of(json["chat_template"], folder / name);
    }
  }
  return templates;
}

ChatTemplate::ChatTemplate(std::string_view source,
                           std::map<std::string, std::string> special_tokens)
    : default_(source), special_tokens_(std::move(special_tokens)) {}

std::optional<ChatTemplate> ChatTemplate::read(const fs::path& folder, const fs::path& tokens) {
  const std::vector<NamedTemplate> templates = read_chat_templates(folder);
  const auto find = [&](const char* name) {
    return std::ranges::find(templates, name, &NamedTemplate::name);
  };
  auto place = find(kDefaultTemplate);
  if (place == templates.end()) return {};
  try {
    ChatTemplate found(place->source, read_special_tokens(tokens));
    if (const auto with_tools = find(kToolTemplate); with_tools != templates.end()) {
      place = with_tools;
      found.tool_use_.emplace(with_tools->source);
    }
    return found;
  } catch (const jinja::TemplateError& error) {
    throw ConfigError(fmt::format("{}: the chat template: {}", place->file.string(), error.what()));
  }
}

ChatTemplate ChatTemplate::open(const fs::path& file, const fs::path& folder) {
  try {
    return ChatTemplate(io::read_file(file), read_special_tokens(folder));
  } catch (const jinja::TemplateError& error) {
    throw ConfigError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

jinja::Rendered ChatTemplate::render(const ordered_json& messages,
                                     const ChatOptions& options) const {
  ordered_json context = ordered_json::object();
  for (const auto& [name, text] : special_tokens_) context[name] = text;
  if (options.variables.is_object()) {
    // The names of variables are the template's.
    for (auto& [name, value] : options.variables.items()) guard_.mark(context[name] = value);
  }
  ordered_json conversation = messages, tools = options.tools, documents = options.documents;
  for (ordered_json& message : conversation) {
    const bool is_assistant =
        message.is_object() && message.value("role", ordered_json()) == "assistant";
    if (!options.trusts_assistant || !is_assistant) guard_.mark(message);
  }
  for (ordered_json* given : {&tools, &documents}) guard_.mark(*given);
  for (ordered_json& message : conversation) add_reasoning_names(message);
  std::string continued;
  if (options.continue_final_message) {
    continued = std::exchange(final_text(conversation),
                              final_text(conversation) + std::string(kContinuationMark));
  }
  context["messages"] = std::move(conversation);
  context["tools"] = std::move(tools);
  context["documents"] = std::move(documents);
  context["add_generation_prompt"] = options.add_generation_prompt;
  const bool has_tools = !options.tools.is_null() && tool_use_;
  const Program& program = has_tools ? *tool_use_ : default_;
  jinja::Rendered rendered = program.compiled.render(jinja::Value::from_json(context));
  if (options.continue_final_message) cut_at_mark(rendered, continued);
  std::vector<size_t*> offsets;
  for (jinja::Span& span : rendered.generations) {
    offsets.push_back(&span.begin);
    offsets.push_back(&span.end);
  }
  rendered.breaks = SpecialTextGuard::take_marks(rendered.text, offsets);
  return rendered;
}

void ChatTemplate::protect(const std::vector<SpecialToken>& tokens) {
  std::vector<std::string> special, literals;
  for (const SpecialToken& token : tokens) special.push_back(token.text);
  for (const bool tools : {false, true}) {
    for (const jinja::Token& token : jinja::split_into_tokens(source(tools))) {
      if (token.kind == jinja::Token::Kind::string) literals.push_back(token.text);
      if (token.kind == jinja::Token::Kind::name) literals.push_back(token.text);
    }
  }
  guard_ = SpecialTextGuard(special, std::move(literals));
}

ChatTemplate ChatTemplate::protecting(const std::vector<SpecialToken>& tokens) const {
  ChatTemplate made(default_.source, special_tokens_);
  if (tool_use_) made.tool_use_.emplace(tool_use_->source);
  made.protect(tokens);
  return made;
}

}  // namespace colossal::text
