#include "colossal/server/served_model.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "colossal/io/json.h"
#include "colossal/serve/model_folder.h"
#include "colossal/server/api_error.h"

namespace colossal::server {
namespace {

// Bytes per token above which a text is assumed not to fit in max_length tokens. It is then refused
// before it is tokenized.
constexpr size_t kBytesOfToken = 8;
// Bytes per token that are kept of a text that is cut: more, so that the tokens that are kept are
// those of the whole text, unless they are very long.
constexpr size_t kBytesOfCutToken = 16;
// A noncharacter (U+FDD0), which no text has. Inserted in special tokens that users write, so that
// they are tokenized as plain text.
constexpr std::string_view kBreak = "\xEF\xB7\x90";

std::vector<int32_t> tokens_with(const text::Tokenizer& tokenizer, std::string_view text,
                                 bool as_prompt) {
  try {
    return as_prompt ? tokenizer.encode_prompt(text) : tokenizer.encode(text);
  } catch (const text::InvalidText& error) {
    throw ApiError(400, error.what());
  }
}

void remove_all(std::string& text, std::string_view what) {
  std::string kept;
  size_t begin = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, begin)) {
    kept.append(text, begin, at - begin);
    begin = at + what.size();
  }
  if (begin > 0) text = std::move(kept.append(text, begin));
}

// Whether the template reads content that is a list of parts. Other templates would write the list
// itself, with its quotes and braces, into the prompt.
bool reads_parts(const text::ChatTemplate& chat_template) {
  const auto rendered = [&](const nlohmann::ordered_json& content) {
    nlohmann::ordered_json message = {{"role", "user"}};
    message["content"] = content;
    return chat_template.render(nlohmann::ordered_json::array({message}), {}).text;
  };
  nlohmann::ordered_json part = {{"type", "text"}};
  part["text"] = "probe";
  try {
    return rendered(nlohmann::ordered_json::array({part})) == rendered("probe");
  } catch (const text::jinja::TemplateError&) {
    return false;
  }
}

// OpenAI's clients send a system message as one of the developer. Most templates do not know this
// role, and some would leave the message out.
void replace_developer(nlohmann::ordered_json& messages) {
  for (auto& message : messages) {
    const auto role = message.find("role");
    if (role != message.end() && *role == "developer") *role = "system";
  }
}

// Makes content that is a list of parts, all of them text, one string with line breaks between
// them.
void join_parts(nlohmann::ordered_json& messages) {
  for (auto& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    const bool all_text = std::ranges::all_of(*content, [](const nlohmann::ordered_json& part) {
      return part.is_object() && part.contains("text") && part["text"].is_string();
    });
    if (!all_text) continue;
    std::string text;
    for (const auto& part : *content) {
      text += (text.empty() ? "" : "\n") + part["text"].get_ref<const std::string&>();
    }
    *content = std::move(text);
  }
}

}  // namespace

ServedModel::ServedModel(const std::filesystem::path& folder, std::string name, int64_t max_length,
                         int64_t vocabulary, bool causal, std::optional<models::Labels> labels)
    : name_(std::move(name)),
      max_length_(max_length),
      vocabulary_(vocabulary),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      causal_(causal),
      labels_(std::move(labels)),
      tokenizer_(text::make_tokenizer(folder.string())),
      chat_template_(text::ChatTemplate::read(folder)),
      sampling_(serve::default_sampling(folder)),
      pooling_(serve::default_pooling(folder, causal)),
      end_tokens_(serve::end_tokens(folder, *tokenizer_)) {
  for (const text::SpecialToken& token : tokenizer_->special_tokens()) {
    special_[token.token] = token.text;
  }
  if (!chat_template_) return;
  reads_parts_ = reads_parts(*chat_template_);
  tool_call_form_ = text::detect_tool_call_form(chat_template_->source());
  const std::vector<std::string> markers = text::tool_call_markers(tool_call_form_);
  for (const auto& [token, content] : special_) {
    if (std::ranges::find(markers, content) != markers.end()) call_markers_.insert(token);
  }
}

std::string ServedModel::quoted_names() const {
  std::string names = io::quote_text(name_);
  for (const ServedAdapter& adapter : adapters_->all())
    names += ", " + io::quote_text(adapter.name);
  return names;
}

std::string ServedModel::bytes_of(int32_t token) const {
  return tokenizer_->decode_continuation(std::span(&token, 1));
}

void ServedModel::check_size(size_t bytes) const {
  const size_t limit = kBytesOfToken * static_cast<size_t>(max_length_);
  if (bytes > limit) {
    throw too_long(max_length_,
                   fmt::format("the prompt has {} bytes, and a text of at most {} bytes is "
                               "tokenized",
                               bytes, limit),
                   "");
  }
}

std::string_view ServedModel::limited(std::string_view text, LongText long_text) const {
  if (long_text == LongText::refuse) {
    check_size(text.size());
    return text;
  }
  const size_t limit = kBytesOfCutToken * static_cast<size_t>(max_length_);
  if (text.size() <= limit) return text;
  const auto is_inside_character = [&](size_t at) { return (text[at] & 0xC0) == 0x80; };
  if (long_text == LongText::cut_end) {
    size_t end = limit;
    while (end > 0 && is_inside_character(end)) --end;
    return text.substr(0, end);
  }
  size_t begin = text.size() - limit;
  while (begin < text.size() && is_inside_character(begin)) ++begin;
  return text.substr(begin);
}

std::optional<int32_t> ServedModel::special_token(std::string_view text) const {
  for (const auto& [token, content] : special_) {
    if (content == text) return token;
  }
  return std::nullopt;
}

std::vector<int32_t> ServedModel::encode(std::string_view text, bool add_special_tokens,
                                         LongText long_text) const {
  return tokens_with(*tokenizer_, limited(text, long_text), add_special_tokens);
}

text::TypedTokens ServedModel::encode_texts(const std::string& first, const std::string* second,
                                            int64_t most, LongText long_text) const {
  if (long_text == LongText::refuse) check_size(first.size() + (second ? second->size() : 0));
  std::string second_text;
  if (second) second_text = limited(*second, long_text);
  try {
    return tokenizer_->encode_texts(std::string(limited(first, long_text)),
                                    second ? &second_text : nullptr, most);
  } catch (const text::InvalidText& error) {
    throw ApiError(400, error.what());
  }
}

// Inserts kBreak after the first character of each special token in all strings of `value`.
void ServedModel::break_special_tokens(nlohmann::ordered_json& value) const {
  if (value.is_structured()) {
    for (auto& item : value) break_special_tokens(item);
  }
  if (!value.is_string()) return;
  auto& text = value.get_ref<std::string&>();
  remove_all(text, kBreak);
  for (const auto& [token, content] : special_) {
    if (content.empty()) continue;
    std::string broken;
    size_t begin = 0;
    for (size_t at = text.find(content); at != text.npos; at = text.find(content, begin)) {
      size_t behind = at;
      while (++behind < text.size() && (text[behind] & 0xC0) == 0x80) {
      }
      broken.append(text, begin, behind - begin).append(kBreak);
      begin = behind;
    }
    if (begin > 0) text = std::move(broken.append(text, begin));
  }
}

std::vector<int32_t> ServedModel::encode_chat(const nlohmann::ordered_json& messages,
                                              const text::ChatOptions& options,
                                              LongText long_text) const {
  if (!chat_template_) {
    throw ApiError(400,
                   fmt::format("the model {} has no chat template: use /v1/completions", name_));
  }
  nlohmann::ordered_json safe = messages;
  if (!reads_parts_) join_parts(safe);
  if (chat_template_->source().find("developer") == std::string::npos) replace_developer(safe);
  break_special_tokens(safe);
  std::string text;
  try {
    text = chat_template_->render(safe, options).text;
  } catch (const text::jinja::TemplateError& error) {
    throw ApiError(400, fmt::format("the chat template: {}", error.what()), "messages");
  }
  const std::string_view kept = limited(text, long_text);
  std::vector<int32_t> tokens;
  for (size_t begin = 0; begin <= kept.size();) {
    const size_t end = std::min(kept.find(kBreak, begin), kept.size());
    const auto part = tokens_with(*tokenizer_, kept.substr(begin, end - begin),
                                  /*as_prompt=*/false);
    tokens.insert(tokens.end(), part.begin(), part.end());
    begin = end + kBreak.size();
  }
  return tokens;
}

}  // namespace colossal::server
