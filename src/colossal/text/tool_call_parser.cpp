#include "colossal/text/tool_call_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace colossal::text {
namespace {

constexpr std::string_view kHermesBegin = "<tool_call>", kHermesEnd = "</tool_call>";
constexpr std::string_view kMistralBegin = "[TOOL_CALLS]", kMistralArguments = "[ARGS]";
constexpr std::string_view kLlamaBegin = "<|python_tag|>";

bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

// Returns the length of the longest suffix of the text that is a proper prefix of the marker.
size_t held_back(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length) {
    if (text.ends_with(marker.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

namespace tool_calls {

// Finds the end of a JSON value, byte by byte. Does not check that the value is valid.
class ValueScanner {
 public:
  // Returns false if the value ended before this byte, as numbers do.
  bool push(char byte) {
    if (over_) return false;
    if (in_string_) {
      if (!std::exchange(escaped_, !escaped_ && byte == '\\') && byte == '"') {
        in_string_ = false;
        over_ = depth_ == 0;
      }
      return true;
    }
    if (depth_ == 0 && begun_ && (byte == ',' || byte == '}' || byte == ']' || is_space(byte))) {
      over_ = true;
      return false;
    }
    begun_ = true;
    if (byte == '"') in_string_ = true;
    if (byte == '{' || byte == '[') ++depth_;
    if (byte == '}' || byte == ']') over_ = --depth_ <= 0;
    return true;
  }
  bool over() const { return over_; }

 private:
  int depth_ = 0;
  bool begun_ = false, in_string_ = false, escaped_ = false, over_ = false;
};

// Parses {"name": "f", "arguments": {...}}, with the members in any order, byte by byte.
class CallReader {
 public:
  enum class State { goes_on, done, wrong };

  State push(char byte) {
    text_ += byte;
    if (place_ != Place::value && is_space(byte)) return State::goes_on;
    switch (place_) {
      case Place::before:
        place_ = Place::key_or_end;
        return byte == '{' ? State::goes_on : State::wrong;
      case Place::key_or_end:
        if (byte == '}') return end();
        if (byte != '"') return State::wrong;
        place_ = Place::key;
        key_.clear();
        return State::goes_on;
      case Place::key:
        if (byte == '"') {
          place_ = Place::colon;
        } else {
          key_ += byte;
        }
        return State::goes_on;
      case Place::colon:
        place_ = Place::before_value;
        return byte == ':' ? State::goes_on : State::wrong;
      case Place::before_value:
        place_ = Place::value;
        scanner_ = {};
        value_.clear();
        [[fallthrough]];
      case Place::value:
        return push_value(byte);
      case Place::comma_or_end:
        if (byte == '}') return end();
        place_ = Place::key_or_end;
        return byte == ',' ? State::goes_on : State::wrong;
    }
    return State::wrong;
  }

  const std::optional<std::string>& name() const { return name_; }
  const std::string& arguments() const { return arguments_; }
  const std::string& text() const { return text_; }

 private:
  enum class Place { before, key_or_end, key, colon, before_value, value, comma_or_end };

  bool are_arguments() const { return key_ == "arguments" || key_ == "parameters"; }

  State push_value(char byte) {
    if (scanner_.push(byte)) {
      value_ += byte;
      // Arguments that are an object are available while they arrive. Others are converted when
      // they are complete, in end_value().
      if (are_arguments() && value_.front() == '{') arguments_ += byte;
      return scanner_.over() ? end_value() : State::goes_on;
    }
    const State ended = end_value();
    if (ended == State::wrong || is_space(byte)) return ended;
    text_.pop_back();
    return push(byte);
  }

  State end_value() {
    place_ = Place::comma_or_end;
    const nlohmann::json value = nlohmann::json::parse(value_, nullptr, false);
    if (value.is_discarded()) return State::wrong;
    if (key_ == "name") {
      if (!value.is_string()) return State::wrong;
      name_ = value.get<std::string>();
    }
    if (are_arguments() && !value.is_object()) {
      // Some models write the object as a string, or null in its place.
      arguments_ = value.is_string() ? value.get<std::string>() : value.is_null() ? "{}" : value_;
    }
    return State::goes_on;
  }

  State end() {
    if (arguments_.empty()) arguments_ = "{}";
    return name_ ? State::done : State::wrong;
  }

  Place place_ = Place::before;
  std::string text_, key_, value_, arguments_;
  ValueScanner scanner_;
  std::optional<std::string> name_;
};

}  // namespace tool_calls

using tool_calls::CallReader;
using tool_calls::ValueScanner;

ToolCallForm find_tool_call_form(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  if (!has("tools")) return ToolCallForm::none;
  if (has(kHermesBegin)) return has("<function=") ? ToolCallForm::none : ToolCallForm::hermes;
  if (has(kMistralBegin)) return ToolCallForm::mistral;
  if (has("\"parameters\"") && (has(kLlamaBegin) || has("ipython"))) {
    return ToolCallForm::llama_json;
  }
  return ToolCallForm::none;
}

std::vector<std::string> tool_call_markers(ToolCallForm form) {
  switch (form) {
    case ToolCallForm::hermes:
      return {std::string(kHermesBegin), std::string(kHermesEnd)};
    case ToolCallForm::mistral:
      return {std::string(kMistralBegin), std::string(kMistralArguments)};
    case ToolCallForm::llama_json:
      return {std::string(kLlamaBegin)};
    default:
      return {};
  }
}

struct ToolCallParser::State {
  enum class Place {
    content,    // before a marker
    call,       // in the JSON object of a call
    name,       // after Mistral's marker
    arguments,  // in the arguments of a tool whose name is known
    after_call,
    at_begin,  // before an answer that may be a call as a whole
    only_content
  };

  ToolCallForm form;
  std::string tool;
  Place place = Place::content;
  std::string buffer;  // text that was not parsed yet
  bool in_list = false;
  std::optional<CallReader> call;
  std::string marker_text;  // text between the content and the call
  std::string spaces;       // white space after the content; dropped if a call follows
  std::optional<ValueScanner> value;
  bool named = false;  // whether the call's name was returned
  size_t given = 0;    // number of bytes of the call's arguments that were returned
  size_t begun = 0, whole = 0;
  ParsedText out;

  void add_content(std::string_view text) {
    for (const char byte : text) {
      spaces += byte;
      if (is_space(byte)) continue;
      out.content += spaces;
      spaces.clear();
    }
  }

  void begin_call(const std::string& name) {
    out.calls.push_back({.call = begun++, .name = name, .arguments = ""});
    named = true;
    given = 0;
    spaces.clear();
    marker_text.clear();
  }
  void give(std::string_view arguments) {
    if (given >= arguments.size()) return;
    if (out.calls.empty() || out.calls.back().call != begun - 1) {
      out.calls.push_back({.call = begun - 1, .name = std::nullopt, .arguments = ""});
    }
    out.calls.back().arguments += arguments.substr(given);
    given = arguments.size();
  }
  void end_call() {
    ++whole;
    named = false;
    call.reset();
    place = Place::after_call;
  }

  // Called if the text is no call after all. The text becomes content, unless a part of it was
  // returned as a call.
  void give_up() {
    std::string text = marker_text;
    if (call) text += call->text();
    call.reset();
    marker_text.clear();
    if (!named) add_content(text);
    named = false;
    in_list = false;
    place = form == ToolCallForm::hermes || form == ToolCallForm::mistral ? Place::content
                                                                          : Place::only_content;
  }

  void push_call(char byte) {
    const CallReader::State state = call->push(byte);
    if (state == CallReader::State::wrong) return give_up();
    if (call->name()) {
      if (!named) begin_call(*call->name());
      give(call->arguments());
    }
    if (state == CallReader::State::done) end_call();
  }

  void begin_reading() {
    call.emplace();
    place = Place::call;
  }

  std::string_view marker() const {
    return form == ToolCallForm::hermes ? kHermesBegin : kMistralBegin;
  }

  // Reads content up to the marker. Returns false if more text is needed.
  bool read_content() {
    const size_t found = buffer.find(marker());
    if (found == buffer.npos) {
      const size_t sure = buffer.size() - held_back(buffer, marker());
      add_content(std::string_view(buffer).substr(0, sure));
      buffer.erase(0, sure);
      return false;
    }
    add_content(std::string_view(buffer).substr(0, found));
    marker_text = spaces + std::string(marker());
    spaces.clear();
    buffer.erase(0, found + marker().size());
    if (form == ToolCallForm::hermes) {
      begin_reading();
    } else {
      place = Place::name;
    }
    return true;
  }

  // Reads what follows Mistral's marker: a list of calls, one call, or a name and its arguments.
  // Returns false if more text is needed.
  bool read_name() {
    const size_t begin = std::min(buffer.find_first_not_of(" \n\t\r"), buffer.size());
    if (begin == buffer.size()) return false;
    if (buffer[begin] == '[' && !std::string_view(buffer).substr(begin).starts_with("[ARGS")) {
      in_list = true;
      marker_text += buffer.substr(0, begin + 1);
      buffer.erase(0, begin + 1);
      begin_reading();
      return true;
    }
    const size_t brace = buffer.find('{', begin);
    if (brace == begin) {
      begin_reading();
      return true;
    }
    if (brace == buffer.npos) return false;
    std::string name = buffer.substr(begin, brace - begin);
    if (const size_t marked = name.find(kMistralArguments); marked != name.npos) {
      name.resize(marked);
    }
    while (!name.empty() && is_space(name.back())) name.pop_back();
    buffer.erase(0, brace);
    begin_call(name);
    value.emplace();
    place = Place::arguments;
    return true;
  }

  void push_argument(char byte) {
    if (!value->push(byte)) return;
    // give() expects all arguments so far, of which `given` bytes were returned.
    arguments_text += byte;
    give(arguments_text);
    if (!value->over()) return;
    arguments_text.clear();
    end_call();
  }
  std::string arguments_text;

  bool read_after_call() {
    const size_t begin = buffer.find_first_not_of(" \n\t\r");
    if (begin == buffer.npos) {
      buffer.clear();
      return false;
    }
    buffer.erase(0, begin);
    if (form == ToolCallForm::hermes) {
      if (buffer.size() < kHermesEnd.size() && kHermesEnd.starts_with(buffer)) return false;
      if (buffer.starts_with(kHermesEnd)) buffer.erase(0, kHermesEnd.size());
      place = Place::content;
      return true;
    }
    const char separator = form == ToolCallForm::llama_json ? ';' : ',';
    const bool more = buffer[0] == separator && (in_list || form == ToolCallForm::llama_json);
    const bool ends = buffer[0] == ']' && in_list;
    if (more || ends) buffer.erase(0, 1);
    if (more) {
      begin_reading();
    } else {
      in_list = false;
      place = form == ToolCallForm::mistral ? Place::content : Place::only_content;
    }
    return true;
  }

  // Reads the beginning of an answer that is a call as a whole, or no call. Returns false if more
  // text is needed.
  bool read_begin() {
    const size_t begin = buffer.find_first_not_of(" \n\t\r");
    if (begin == buffer.npos) return false;
    if (form == ToolCallForm::arguments) {
      begin_call(tool);
      value.emplace();
      buffer.erase(0, begin);
      place = Place::arguments;
      return true;
    }
    const std::string_view rest = std::string_view(buffer).substr(begin);
    size_t skipped = begin;
    if (form == ToolCallForm::llama_json) {
      if (rest.size() < kLlamaBegin.size() && kLlamaBegin.starts_with(rest)) return false;
      if (rest.starts_with(kLlamaBegin)) skipped += kLlamaBegin.size();
    } else if (rest[0] == '[') {
      in_list = true;
      ++skipped;
    }
    const size_t brace = std::min(buffer.find_first_not_of(" \n\t\r", skipped), buffer.size());
    if (brace == buffer.size()) return false;
    if (buffer[brace] != '{') {
      place = Place::only_content;
      return true;
    }
    marker_text = buffer.substr(0, brace);
    buffer.erase(0, brace);
    begin_reading();
    return true;
  }

  bool read_some() {
    switch (place) {
      case Place::content:
        return read_content();
      case Place::name:
        return read_name();
      case Place::after_call:
        return read_after_call();
      case Place::at_begin:
        return read_begin();
      case Place::only_content:
        out.content += spaces + std::exchange(buffer, "");
        spaces.clear();
        return false;
      case Place::call:
      case Place::arguments:
        break;
    }
    size_t read = 0;
    const Place before = place;
    while (read < buffer.size() && place == before) {
      const char byte = buffer[read++];
      before == Place::call ? push_call(byte) : push_argument(byte);
    }
    buffer.erase(0, read);
    return !buffer.empty();
  }

  ParsedText take() { return std::exchange(out, {}); }
};

ToolCallParser::ToolCallParser(ToolCallForm form, std::string tool)
    : state_(std::make_unique<State>(State{.form = form, .tool = std::move(tool)})) {
  using Place = State::Place;
  state_->place = form == ToolCallForm::none ? Place::only_content
                  : form == ToolCallForm::hermes || form == ToolCallForm::mistral ? Place::content
                                                                                  : Place::at_begin;
}

ToolCallParser::~ToolCallParser() = default;
ToolCallParser::ToolCallParser(ToolCallParser&&) noexcept = default;

ParsedText ToolCallParser::push(std::string_view text) {
  state_->buffer += text;
  while (!state_->buffer.empty() && state_->read_some()) {
  }
  return state_->take();
}

ParsedText ToolCallParser::finish() {
  State& state = *state_;
  using Place = State::Place;
  if (state.place == Place::call || state.place == Place::name) {
    const std::string rest = std::exchange(state.buffer, "");
    state.give_up();
    state.add_content(rest);
  } else if (state.place != Place::arguments && state.place != Place::after_call) {
    state.out.content += state.begun == 0 ? state.spaces + state.buffer : state.buffer;
  }
  state.buffer.clear();
  return state.take();
}

size_t ToolCallParser::num_calls() const {
  return state_->begun;
}

size_t ToolCallParser::num_whole_calls() const {
  return state_->whole;
}

}  // namespace colossal::text
