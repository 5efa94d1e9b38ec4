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

std::vector<int32_t> tokens_with(const text::Tokenizer& tokenizer, std::string_view text,
                                 bool as_prompt) {
  try {
    return as_prompt ? tokenizer.encode_prompt(text) : tokenizer.encode(text);
  } catch (const text::InvalidText& error) {
    throw ApiError(400, error.what());
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

// Makes arguments of calls that are objects the texts of these objects. Returns whether there were
// any.
bool write_arguments(nlohmann::ordered_json& messages) {
  bool found = false;
  for (auto& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (auto& call : *calls) {
      auto& arguments = call["function"]["arguments"];
      if (!arguments.is_object()) continue;
      arguments = arguments.dump();
      found = true;
    }
  }
  return found;
}

// Some templates, such as DeepSeek's, join the arguments of calls as texts, and fail on objects.
text::jinja::Rendered render(const text::ChatTemplate& chat_template,
                             const nlohmann::ordered_json& messages,
                             const text::ChatOptions& options) {
  try {
    return chat_template.render(messages, options);
  } catch (const text::jinja::TemplateRefusal&) {
    throw;
  } catch (const text::jinja::TemplateError&) {
    nlohmann::ordered_json with_texts = messages;
    if (!write_arguments(with_texts)) throw;
    return chat_template.render(with_texts, options);
  }
}

}  // namespace

ServedModel::ServedModel(const text::ModelFolder& folder, std::string name, int64_t max_length,
                         int64_t vocabulary, bool causal, std::optional<models::Labels> labels,
                         serve::GenerationSettings generation)
    : name_(std::move(name)),
      max_length_(max_length),
      vocabulary_(vocabulary),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      causal_(causal),
      labels_(std::move(labels)),
      folder_(folder),
      tokenizer_(folder.tokenizer()),
      form_(read_chat_form(folder, *tokenizer_)),
      generation_(std::move(generation)),
      pooling_(serve::default_pooling(folder.model(), causal)) {
  for (const text::SpecialToken& token : tokenizer_->special_tokens()) {
    special_[token.token] = token.text;
  }
  if (!form_.chat_template) return;
  const std::string& source = form_.chat_template->source(/*tools=*/true);
  set_forms(text::detect_tool_call_form(source), text::detect_reasoning_form(source));
}

void ServedModel::set_forms(std::optional<text::ToolCallForm> calls,
                            std::optional<text::ReasoningForm> reasoning) {
  tool_call_form_ = calls.value_or(tool_call_form_);
  reasoning_form_ = reasoning.value_or(reasoning_form_);
  std::vector<std::string> markers = text::tool_call_markers(tool_call_form_);
  for (std::string& marker : text::texts_of_reasoning_markers(reasoning_form_)) {
    markers.push_back(std::move(marker));
  }
  // An answer of harmony goes on with its last channel after the others.
  const bool is_harmony = reasoning_form_ == text::ReasoningForm::harmony;
  const text::CallMarkers around = text::reasoning_markers(reasoning_form_);
  const std::string_view begin = is_harmony ? "<|channel|>" : around.begin;
  reasoning_end_ = is_harmony ? "final<|message|>" : around.end;
  const std::vector<int32_t> tokens =
      begin.empty() ? std::vector<int32_t>() : tokens_with(*tokenizer_, begin, /*as_prompt=*/false);
  reasoning_token_ = tokens.size() == 1 ? tokens[0] : -1;
  answer_markers_.clear();
  for (const auto& [token, content] : special_) {
    if (std::ranges::find(markers, content) != markers.end()) answer_markers_.insert(token);
  }
}

std::string ServedModel::quoted_names() const {
  std::string names = io::quote_text(name_);
  for (const ServedAdapter& adapter : adapters_->all())
    names += ", " + io::quote_text(adapter.name);
  return names;
}

ChatForm ServedModel::form_of_adapter(const std::filesystem::path& adapter) const {
  const text::ModelFolder both(folder_.model(), adapter);
  return read_chat_form(both, *both.tokenizer());
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

ChatPrompt ServedModel::encode_chat(const nlohmann::ordered_json& messages,
                                    const text::ChatOptions& options, LongText long_text,
                                    const ChatForm* of_adapter) const {
  const ChatForm& form = of_adapter ? *of_adapter : form_;
  if (!form.chat_template) {
    throw ApiError(400,
                   fmt::format("the model {} has no chat template: use /v1/completions", name_));
  }
  nlohmann::ordered_json adapted = messages;
  if (!form.reads_parts) join_parts(adapted);
  if (form.chat_template->source().find("developer") == std::string::npos)
    replace_developer(adapted);
  text::jinja::Rendered rendered;
  try {
    rendered = render(*form.chat_template, adapted, options);
  } catch (const text::jinja::TemplateError& error) {
    throw ApiError(400, fmt::format("the chat template: {}", error.what()), "messages");
  }
  ChatPrompt prompt{.tokens = {}, .begin = text::begin_of_answer(reasoning_form_, rendered.text)};
  const std::string_view kept = limited(rendered.text, long_text);
  const auto cut = static_cast<size_t>(kept.data() - rendered.text.data());
  std::erase_if(rendered.breaks, [&](size_t at) { return at < cut || at > cut + kept.size(); });
  for (size_t& at : rendered.breaks) at -= cut;
  try {
    prompt.tokens = tokenizer_->encode_with_breaks(kept, rendered.breaks);
  } catch (const text::InvalidText& error) {
    throw ApiError(400, error.what());
  }
  return prompt;
}

}  // namespace colossal::server
