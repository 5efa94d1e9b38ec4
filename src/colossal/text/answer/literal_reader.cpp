#include "colossal/text/answer/literal_reader.h"

#include <nlohmann/json.hpp>

#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 64;

bool is_of_name(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-' ||
         static_cast<unsigned char>(byte) >= 0x80;
}

bool is_hex(char byte) {
  const char letter = static_cast<char>(byte | 0x20);
  return (byte >= '0' && byte <= '9') || (letter >= 'a' && letter <= 'f');
}

// What both notations share. Functions return nullopt, or false, where the text is not of the
// notation.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool at_end() {
    skip_space();
    return rest_.empty();
  }
  bool skip(std::string_view text) {
    skip_space();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::string name() {
    skip_space();
    size_t length = 0;
    while (length < rest_.size() && is_of_name(rest_[length])) ++length;
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }

 protected:
  void skip_space() {
    const size_t first = rest_.find_first_not_of(" \n\t\r");
    rest_.remove_prefix(std::min(first, rest_.size()));
  }
  // Reads a number of JSON, or of Python where both agree.
  std::optional<Json> number() {
    const size_t length = std::min(rest_.find_first_not_of("+-0123456789.eE_"), rest_.size());
    std::string digits(rest_.substr(0, length));
    std::erase(digits, '_');
    Json value = Json::parse(digits, nullptr, /*allow_exceptions=*/false);
    if (!value.is_number()) return std::nullopt;
    rest_.remove_prefix(length);
    return value;
  }

  std::string_view rest_;
  int depth_ = 0;
};

class PythonReader : public Reader {
 public:
  using Reader::Reader;

  std::optional<std::vector<LiteralCall>> calls() {
    const bool in_list = skip("[");
    std::vector<LiteralCall> calls;
    do {
      auto call = one_call();
      if (!call) return std::nullopt;
      calls.push_back(*std::move(call));
    } while (in_list ? skip(",") : (skip(";"), !at_end()));
    if ((in_list && !skip("]")) || !at_end()) return std::nullopt;
    return calls;
  }

  std::optional<Json> value() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    skip_space();
    std::optional<Json> read;
    if (rest_.empty()) return std::nullopt;
    if (rest_[0] == '"' || rest_[0] == '\'') {
      read = text();
    } else if (skip("[")) {
      read = list("]");
    } else if (skip("(")) {
      read = list(")");
    } else if (skip("{")) {
      read = dict();
    } else if (word("True") || word("true")) {
      read = true;
    } else if (word("False") || word("false")) {
      read = false;
    } else if (word("None") || word("null")) {
      read = Json();
    } else {
      read = number();
    }
    --depth_;
    return read;
  }

 private:
  std::optional<LiteralCall> one_call() {
    LiteralCall call{.name = name(), .arguments = ""};
    if (call.name.empty() || !skip("(")) return std::nullopt;
    if (call.name == "print") {
      auto inner = one_call();
      if (!inner || !skip(")")) return std::nullopt;
      return inner;
    }
    Json arguments = Json::object();
    while (!skip(")")) {
      const std::string key = name();
      if (key.empty() || !skip("=")) return std::nullopt;
      auto argument = value();
      if (!argument || arguments.contains(key)) return std::nullopt;
      arguments[key] = *std::move(argument);
      if (!skip(",") && !rest_.starts_with(')')) return std::nullopt;
    }
    call.arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
    return call;
  }

  bool word(std::string_view text) {
    const bool ends = rest_.size() == text.size() ||
                      (rest_.size() > text.size() && !is_of_name(rest_[text.size()]));
    return rest_.starts_with(text) && ends && skip(text);
  }

  std::optional<Json> list(std::string_view close) {
    Json items = Json::array();
    while (!skip(close)) {
      auto item = value();
      if (!item) return std::nullopt;
      items.push_back(*std::move(item));
      if (!skip(",") && !(skip_space(), rest_.starts_with(close))) return std::nullopt;
    }
    return items;
  }

  std::optional<Json> dict() {
    Json entries = Json::object();
    while (!skip("}")) {
      const auto key = value();
      if (!key || !key->is_string() || !skip(":")) return std::nullopt;
      auto entry = value();
      if (!entry) return std::nullopt;
      entries[key->get<std::string>()] = *std::move(entry);
      if (!skip(",") && !(skip_space(), rest_.starts_with('}'))) return std::nullopt;
    }
    return entries;
  }

  std::optional<Json> text() {
    const std::string three(3, rest_[0]);
    const std::string quote = rest_.starts_with(three) ? three : std::string(1, rest_[0]);
    rest_.remove_prefix(quote.size());
    std::string text;
    while (!rest_.starts_with(quote)) {
      if (rest_.empty() || (rest_[0] == '\\' && rest_.size() < 2)) return std::nullopt;
      const char byte = rest_[0];
      rest_.remove_prefix(1);
      if (byte != '\\') {
        text += byte;
      } else if (!escape(text)) {
        return std::nullopt;
      }
    }
    rest_.remove_prefix(quote.size());
    return text;
  }

  // Reads what follows a backslash.
  bool escape(std::string& text) {
    const char letter = rest_[0];
    rest_.remove_prefix(1);
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits > 0) {
      char32_t value = 0;
      if (rest_.size() < digits) return false;
      for (const char digit : rest_.substr(0, digits)) {
        if (!is_hex(digit)) return false;
        value = value * 16 +
                static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
      }
      rest_.remove_prefix(digits);
      if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return false;
      append_utf8(text, value);
      return true;
    }
    constexpr std::string_view kLetters = "ntrabfv0\\'\"", kMeanings("\n\t\r\a\b\f\v\0\\'\"", 11);
    const size_t found = kLetters.find(letter);
    if (letter == '\n') return true;
    if (found == kLetters.npos) text += '\\';
    text += found == kLetters.npos ? letter : kMeanings[found];
    return true;
  }
};

class GemmaReader : public Reader {
 public:
  GemmaReader(std::string_view text, std::string_view quote) : Reader(text), quote_(quote) {}

  std::optional<Json> value() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    std::optional<Json> read;
    if (skip(quote_)) {
      read = text();
    } else if (skip("[")) {
      read = list();
    } else if (skip("{")) {
      read = object();
    } else if (skip("true")) {
      read = true;
    } else if (skip("false")) {
      read = false;
    } else if (skip("null") || skip("None")) {
      read = Json();
    } else {
      read = number();
    }
    --depth_;
    return read;
  }

  std::optional<Json> object() {
    Json entries = Json::object();
    while (!skip("}")) {
      std::string key;
      if (skip(quote_)) {
        const auto quoted = text();
        if (!quoted) return std::nullopt;
        key = quoted->get<std::string>();
      } else {
        // A key is what precedes the colon.
        const size_t colon = rest_.find(':');
        if (colon == rest_.npos) return std::nullopt;
        key = rest_.substr(0, colon);
        rest_.remove_prefix(colon);
      }
      if (!skip(":")) return std::nullopt;
      auto entry = value();
      if (!entry || entries.contains(key)) return std::nullopt;
      entries[key] = *std::move(entry);
      if (!skip(",") && !rest_.starts_with('}')) return std::nullopt;
    }
    return entries;
  }

 private:
  std::optional<Json> text() {
    const size_t end = rest_.find(quote_);
    if (end == rest_.npos) return std::nullopt;
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + quote_.size());
    return text;
  }
  std::optional<Json> list() {
    Json items = Json::array();
    while (!skip("]")) {
      auto item = value();
      if (!item) return std::nullopt;
      items.push_back(*std::move(item));
      if (!skip(",") && !rest_.starts_with(']')) return std::nullopt;
    }
    return items;
  }

  std::string_view quote_;
};

}  // namespace

std::optional<std::vector<LiteralCall>> read_python_calls(std::string_view text) {
  return PythonReader(text).calls();
}

std::optional<nlohmann::ordered_json> read_python_literal(std::string_view text) {
  PythonReader reader(text);
  auto value = reader.value();
  return reader.at_end() ? value : std::nullopt;
}

std::optional<LiteralCall> read_gemma_call(std::string_view text, std::string_view quote) {
  GemmaReader reader(text, quote);
  if (!reader.skip("call:")) return std::nullopt;
  LiteralCall call{.name = reader.name(), .arguments = ""};
  if (call.name.empty() || !reader.skip("{")) return std::nullopt;
  const auto arguments = reader.object();
  if (!arguments || !reader.at_end()) return std::nullopt;
  call.arguments = arguments->dump(-1, ' ', false, Json::error_handler_t::replace);
  return call;
}

}  // namespace colossal::text
