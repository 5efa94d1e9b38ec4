#include "colossal/tune/samples/sample_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "colossal/data/json_line.h"
#include "colossal/io/json.h"

namespace colossal::tune {
namespace {

using data::InvalidLine;
using nlohmann::ordered_json;

std::string show(const ordered_json& value) {
  return io::show_value(nlohmann::json::parse(value.dump()));
}

// Returns the role for a speaker's name in ShareGPT and similar formats.
std::string role_of(const std::string& speaker) {
  if (speaker == "human") return "user";
  if (speaker == "gpt" || speaker == "bot" || speaker == "chatgpt") return "assistant";
  if (speaker == "observation" || speaker == "function_response" || speaker == "tool_response") {
    return "tool";
  }
  return speaker;
}

bool is_call(const std::string& speaker) {
  return speaker == "function_call" || speaker == "tool_call";
}

// Returns the assistant's message for a turn of ShareGPT whose text is a call, {"name",
// "arguments"}, or a list of calls.
ordered_json call_of(const std::string& text) {
  const ordered_json parsed = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  ordered_json message{
      {"role", "assistant"}, {"content", ""}, {"tool_calls", ordered_json::array()}};
  for (const ordered_json& call : parsed.is_array() ? parsed : ordered_json::array({parsed})) {
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) {
      throw InvalidLine(fmt::format(
          R"(a call is {}, where {{"name": "...", "arguments": {{...}}}} as JSON is expected)",
          show(text)));
    }
    ordered_json function{{"name", call["name"]}, {"arguments", ordered_json::object()}};
    if (call.contains("arguments")) function["arguments"] = call["arguments"];
    message["tool_calls"].push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return message;
}

class LineReader {
 public:
  LineReader(const ordered_json& line, const LineOptions& options)
      : line_(line), options_(options) {
    if (!line.is_object()) {
      throw InvalidLine(fmt::format("found {}, where an object is expected: {}", show(line),
                                    expected_fields(options.kind)));
    }
  }

  SampleTexts read() const {
    switch (options_.kind) {
      case SampleKind::preference:
        return preference();
      case SampleKind::unpaired: {
        SampleTexts texts = prompt_and("completion");
        texts.desirable = truth("label");
        return texts;
      }
      case SampleKind::prompt:
        return prompt_alone();
      case SampleKind::completion:
        return prompt_with_completion();
      case SampleKind::labeled:
        return labeled();
      case SampleKind::language_modeling:
        break;
    }
    if (has("messages")) return whole_chat(messages("messages"));
    if (has("conversations")) return whole_chat(messages("conversations"));
    if (has("instruction")) return instruction();
    if (has("prompt")) return prompt_and("completion");
    refuse_assistant_only();
    return {.prompt = "", .wholes = {{filled("text")}}};
  }

  SampleTexts with_completion(const std::string& completion) const {
    if (!is_chat("prompt")) return {.prompt = "", .wholes = {{text("prompt") + completion}}};
    ordered_json all = messages("prompt");
    all.push_back({{"role", "assistant"}, {"content", completion}});
    return whole_chat(all);
  }

 private:
  // Rows of tables have null where a column does not apply.
  bool has(const char* field) const {
    const auto found = line_.find(field);
    return found != line_.end() && !found->is_null();
  }

  const ordered_json& value(const char* field) const {
    const auto found = line_.find(field);
    if (found != line_.end()) return *found;
    std::vector<std::string> names;
    for (const auto& [name, content] : line_.items()) names.push_back(name);
    throw InvalidLine(
        fmt::format("there is no \"{}\" among its fields ({}); expected is {}", field,
                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                    expected_fields(options_.kind)));
  }

  std::string text(const char* field) const {
    const ordered_json& found = value(field);
    if (found.is_string()) return found.get<std::string>();
    throw InvalidLine(fmt::format("\"{}\" is {}, where a text is expected", field, show(found)));
  }

  std::string filled(const char* field) const {
    std::string found = text(field);
    if (!found.empty()) return found;
    throw InvalidLine(fmt::format("\"{}\" is empty, so there is nothing to train on", field));
  }

  bool truth(const char* field) const {
    const ordered_json& found = value(field);
    if (found.is_boolean()) return found.get<bool>();
    if (found == 0 || found == 1) return found == 1;
    throw InvalidLine(
        fmt::format("\"{}\" is {}, where true or false is expected", field, show(found)));
  }

  bool is_chat(const char* field) const { return has(field) && line_[field].is_array(); }

  ordered_json messages(const char* field) const {
    const ordered_json& found = value(field);
    if (!found.is_array() || found.empty()) {
      throw InvalidLine(
          fmt::format("\"{}\" is {}, where a list of messages is expected", field, show(found)));
    }
    ordered_json messages = ordered_json::array();
    for (const ordered_json& each : found) messages.push_back(message(each, field));
    return messages;
  }

  static ordered_json message(const ordered_json& given, const char* field) {
    ordered_json message = given;
    if (message.is_object() && message.contains("from")) {
      message["role"] = message["from"];
      message.erase("from");
    }
    if (message.is_object() && message.contains("value") && !message.contains("content")) {
      message["content"] = message["value"];
      message.erase("value");
    }
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      throw InvalidLine(fmt::format(
          R"("{}" holds {}, where a message is expected: {{"role": "user", "content": "..."}})",
          field, show(given)));
    }
    const std::string speaker = message["role"].get<std::string>();
    if (is_call(speaker) && message.contains("content") && message["content"].is_string()) {
      return call_of(message["content"].get<std::string>());
    }
    message["role"] = role_of(speaker);
    return message;
  }

  text::jinja::Rendered render(const ordered_json& messages, bool for_an_answer) const {
    if (!options_.chat_template) {
      throw InvalidLine(
          "it is a conversation, but the model's folder has no chat template; set "
          "data.chat_template to the path of one (.jinja)");
    }
    text::ChatOptions chat{.add_generation_prompt = for_an_answer, .trusts_assistant = true};
    if (has("tools")) {
      chat.tools = line_["tools"].is_string()
                       ? ordered_json::parse(line_["tools"].get<std::string>())
                       : line_["tools"];
    }
    if (has("chat_template_kwargs")) chat.variables = line_["chat_template_kwargs"];
    return options_.chat_template->render(messages, chat);
  }

  SampleTexts::Whole whole_of(const ordered_json& messages) const {
    text::jinja::Rendered rendered = render(messages, /*for_an_answer=*/false);
    SampleTexts::Whole whole{.text = std::move(rendered.text),
                             .breaks = std::move(rendered.breaks)};
    if (!options_.assistant_only) return whole;
    if (rendered.generations.empty()) {
      throw InvalidLine(
          "tune.assistant_only_loss: the chat template marks nothing of it with {% generation %}; "
          "use a training template that does, or false");
    }
    whole.learned = std::move(rendered.generations);
    return whole;
  }

  SampleTexts whole_chat(const ordered_json& messages) const {
    return {.prompt = "", .wholes = {whole_of(messages)}, .is_chat = true};
  }

  void refuse_assistant_only() const {
    if (!options_.assistant_only) return;
    throw InvalidLine(
        "tune.assistant_only_loss is for conversations only, and this is not one; use false");
  }

  SampleTexts prompt_and(const char* completion) const {
    if (is_chat("prompt") || is_chat(completion)) {
      return chat_of(messages("prompt"), {messages(completion)});
    }
    refuse_assistant_only();
    const std::string prompt = text("prompt");
    return {.prompt = prompt, .wholes = {{prompt + filled(completion)}}};
  }

  SampleTexts labeled() const {
    const char* const field = options_.text_field.c_str();
    SampleTexts texts = is_chat(field) ? whole_chat(messages(field))
                                       : SampleTexts{.prompt = "", .wholes = {{filled(field)}}};
    const char* const pair = options_.pair_field.c_str();
    if (has(pair)) {
      if (texts.is_chat) {
        throw InvalidLine(
            fmt::format("it has messages and \"{}\"; a second text can follow only "
                        "a text",
                        pair));
      }
      texts.second = text(pair);
    }
    if (has(options_.label_field.c_str())) {
      texts.label = nlohmann::json::parse(line_[options_.label_field].dump());
    }
    return texts;
  }

  SampleTexts prompt_with_completion() const {
    if (has("messages")) return last_of_chat(messages("messages"));
    if (has("conversations")) return last_of_chat(messages("conversations"));
    return has("instruction") ? instruction() : prompt_and("completion");
  }

  SampleTexts last_of_chat(ordered_json prompt) const {
    const ordered_json last = prompt.back();
    prompt.erase(prompt.size() - 1);
    if (prompt.empty() || last["role"] != "assistant") {
      throw InvalidLine(
          "its messages must be a prompt and an answer: at least two messages, of which the last "
          "has role \"assistant\"");
    }
    return chat_of(prompt, {ordered_json::array({last})});
  }

  SampleTexts prompt_alone() const {
    SampleTexts texts;
    texts.is_chat = is_chat("prompt");
    if (texts.is_chat) {
      text::jinja::Rendered rendered = render(messages("prompt"), /*for_an_answer=*/true);
      texts.prompt = std::move(rendered.text);
      texts.prompt_breaks = std::move(rendered.breaks);
    } else {
      texts.prompt = filled("prompt");
    }
    texts.wholes = {SampleTexts::Whole{.text = texts.prompt, .breaks = texts.prompt_breaks}};
    texts.columns = nlohmann::json::parse(line_.dump());
    return texts;
  }

  SampleTexts chat_of(const ordered_json& prompt,
                      const std::vector<ordered_json>& completions) const {
    text::jinja::Rendered rendered = render(prompt, /*for_an_answer=*/true);
    SampleTexts texts{.prompt = std::move(rendered.text),
                      .prompt_breaks = std::move(rendered.breaks),
                      .wholes = {},
                      .is_chat = true};
    for (const ordered_json& completion : completions) {
      ordered_json all = prompt;
      all.insert(all.end(), completion.begin(), completion.end());
      texts.wholes.push_back(whole_of(all));
    }
    return texts;
  }

  // Reads a line in the format of Alpaca.
  SampleTexts instruction() const {
    refuse_assistant_only();
    const std::string input = has("input") ? text("input") : "";
    const std::string prompt = text("instruction") + (input.empty() ? "" : "\n" + input) + "\n";
    return {.prompt = prompt, .wholes = {{prompt + filled("output")}}};
  }

  SampleTexts preference() const {
    SampleTexts texts = is_chat("chosen") || is_chat("rejected") ? chat_pair() : text_pair();
    if (has("margin")) {
      const ordered_json& margin = value("margin");
      if (!margin.is_number()) {
        throw InvalidLine(
            fmt::format("\"margin\" is {}, where a number is expected", show(margin)));
      }
      texts.margin = margin.get<double>();
    }
    return texts;
  }

  static void require_completions(bool has_chosen, bool has_rejected) {
    if (has_chosen && has_rejected) return;
    throw InvalidLine(fmt::format("its {} completion is empty, so there is nothing to compare",
                                  has_chosen ? "rejected" : "chosen"));
  }

  SampleTexts text_pair() const {
    std::string prompt, chosen = text("chosen"), rejected = text("rejected");
    if (has("prompt")) {
      prompt = text("prompt");
    } else {
      prompt = chosen.substr(0, shared_bytes(chosen, rejected));
      chosen.erase(0, prompt.size());
      rejected.erase(0, prompt.size());
    }
    require_completions(!chosen.empty(), !rejected.empty());
    return {.prompt = prompt, .wholes = {{prompt + chosen}, {prompt + rejected}}};
  }

  // Returns the length of the beginning that both texts share, in whole characters. Excludes a
  // space at its end, which belongs to the next word.
  static size_t shared_bytes(const std::string& chosen, const std::string& rejected) {
    size_t shared = std::ranges::mismatch(chosen, rejected).in1 - chosen.begin();
    const auto continues = [&](size_t at) {
      return at < chosen.size() && (static_cast<unsigned char>(chosen[at]) & 0xc0) == 0x80;
    };
    while (shared > 0 && continues(shared)) --shared;
    if (shared > 0 && chosen[shared - 1] == ' ') --shared;
    return shared;
  }

  SampleTexts chat_pair() const {
    ordered_json chosen = messages("chosen"), rejected = messages("rejected");
    ordered_json prompt = ordered_json::array();
    if (has("prompt")) {
      prompt = messages("prompt");
    } else {
      while (!chosen.empty() && !rejected.empty() && chosen.front() == rejected.front()) {
        prompt.push_back(chosen.front());
        chosen.erase(chosen.begin());
        rejected.erase(rejected.begin());
      }
    }
    require_completions(!chosen.empty(), !rejected.empty());
    return chat_of(prompt, {chosen, rejected});
  }

  const ordered_json& line_;
  const LineOptions& options_;
};

// Returns read(). Exceptions of the chat template, or because of wrong JSON types, become
// InvalidLine.
template <typename Read>
SampleTexts checked(const Read& read) {
  try {
    return read();
  } catch (const text::jinja::TemplateError& error) {
    throw InvalidLine(fmt::format("the chat template fails on it: {}", error.what()));
  } catch (const nlohmann::json::exception& error) {
    throw InvalidLine(error.what());
  }
}

}  // namespace

const char* expected_fields(SampleKind kind) {
  switch (kind) {
    case SampleKind::preference:
      return R"({"prompt": "...", "chosen": "...", "rejected": "..."})";
    case SampleKind::unpaired:
      return R"({"prompt": "...", "completion": "...", "label": true})";
    case SampleKind::prompt:
      return R"({"prompt": "..."} and any further fields, for the rewards)";
    case SampleKind::completion:
      return R"({"prompt": "...", "completion": "..."} or {"messages": [...]})";
    case SampleKind::labeled:
      return R"({"text": "...", "label": "..."}, optionally with "text_pair")";
    case SampleKind::language_modeling:
      break;
  }
  return R"({"text": "..."}, {"prompt": "...", "completion": "..."} or {"messages": [...]})";
}

SampleTexts read_sample_line(std::string_view line, const LineOptions& options) {
  // Checks the line: this parser refuses more than the next one, which keeps the order of members.
  io::parse_json(line, "the line");
  const ordered_json object = ordered_json::parse(line);
  return checked([&] { return LineReader(object, options).read(); });
}

SampleTexts text_with_completion(const nlohmann::json& columns, const std::string& completion,
                                 const text::ChatTemplate* chat_template) {
  const ordered_json object = ordered_json::parse(columns.dump());
  const LineOptions options{.kind = SampleKind::prompt, .chat_template = chat_template};
  return checked([&] { return LineReader(object, options).with_completion(completion); });
}

}  // namespace colossal::tune
