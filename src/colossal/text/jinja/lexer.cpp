#include "colossal/text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "colossal/text/jinja/python_text.h"
#include "colossal/text/jinja/value.h"
#include "colossal/text/unicode.h"
#include "colossal/text/utf8.h"

namespace colossal::text::jinja {
namespace {

constexpr std::array<std::string_view, 6> kLongSymbols{"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kShortSymbols = "+-/*%~[](){}<>=.:|,;";

// Converts all line ends to "
// ", and drops a last one, as Jinja does.
std::string normalize_lines(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_lines(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) take_text_and_tag();
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw TemplateError(fmt::format("line {}: {}", line_, what));
  }

  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  void skip(size_t count) {
    const std::string_view skipped = rest_.substr(0, count);
    if (skipped.empty()) return;
    line_ += static_cast<int>(std::ranges::count(skipped, '\n'));
    at_line_start_ = skipped.ends_with('\n');
    rest_.remove_prefix(count);
  }

  void skip_spaces() { skip(rest_.size() - strip_left(rest_).size()); }

  static size_t find_tag(std::string_view text) {
    for (size_t at = text.find('{'); at != text.npos; at = text.find('{', at + 1)) {
      if (at + 1 < text.size() && std::string_view("{%#").find(text[at + 1]) != text.npos)
        return at;
    }
    return text.npos;
  }

  void take_text_and_tag() {
    const size_t tag = find_tag(rest_);
    if (tag == rest_.npos) {
      add_text(rest_);
      return skip(rest_.size());
    }
    const char kind = rest_[tag + 1];
    const std::string_view text = rest_.substr(0, tag);
    add_text(without_end(text, rest_.substr(tag + 2), kind != '{'));
    skip(tag + 2);
    if (!rest_.empty() && (rest_[0] == '-' || rest_[0] == '+')) skip(1);
    if (kind == '#') return take_comment();
    if (kind == '%' && take_raw()) return;
    add(kind == '%' ? Token::Kind::block_begin : Token::Kind::variable_begin, "");
    take_expression(kind == '%');
  }

  void add_text(std::string_view text) {
    if (!text.empty()) add(Token::Kind::text, std::string(text));
  }

  // Returns the text before a tag, without the white space that the tag strips. tag: the source
  // after the tag's opening braces.
  std::string_view without_end(std::string_view text, std::string_view tag, bool may_take_indent) {
    if (tag.starts_with('-')) return strip_right(text);
    if (!may_take_indent || tag.starts_with('+')) return text;
    const size_t line = text.rfind('\n') + 1;
    if (line == 0 && !at_line_start_) return text;
    return strip_left(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // Reads the end of a tag; returns false if there is none here. "-%}" also strips the white space
  // after it, and "%}" one line end.
  bool take_tag_end(std::string_view end, bool takes_line_end) {
    std::string_view sign = rest_.substr(0, 1);
    if (sign != "-" && sign != "+") sign = "";
    if (sign == "+" && !takes_line_end) return false;
    if (!rest_.substr(sign.size()).starts_with(end)) return false;
    skip(sign.size() + end.size());
    if (sign == "-") {
      skip_spaces();
    } else if (sign.empty() && takes_line_end && rest_.starts_with('\n')) {
      skip(1);
    }
    return true;
  }

  void take_comment() {
    const size_t end = rest_.find("#}");
    if (end == rest_.npos) fail("a comment {# has no end #}");
    const bool has_sign = end > 0 && (rest_[end - 1] == '-' || rest_[end - 1] == '+');
    skip(end - has_sign);
    take_tag_end("#}", true);
  }

  // Reads {% raw %} and the text up to {% endraw %}, which is not parsed. Returns false if there is
  // no {% raw %} here.
  bool take_raw() {
    const std::string_view inner = strip_left(rest_);
    if (!inner.starts_with("raw")) return false;
    const std::string_view after = strip_left(inner.substr(3));
    if (!after.starts_with("%}") && !after.starts_with("-%}")) return false;
    skip(rest_.size() - after.size());
    take_tag_end("%}", false);
    for (size_t tag = rest_.find("{%"); tag != rest_.npos; tag = rest_.find("{%", tag + 2)) {
      std::string_view end = rest_.substr(tag + 2);
      if (end.starts_with('-') || end.starts_with('+')) end.remove_prefix(1);
      end = strip_left(end);
      if (!end.starts_with("endraw")) continue;
      add_text(without_end(rest_.substr(0, tag), rest_.substr(tag + 2), true));
      skip(rest_.size() - strip_left(end.substr(6)).size());
      if (!take_tag_end("%}", true)) fail("endraw takes no arguments");
      return true;
    }
    fail("{% raw %} has no {% endraw %}");
  }

  void take_expression(bool is_block) {
    std::string brackets;
    while (true) {
      if (brackets.empty() && take_tag_end(is_block ? "%}" : "}}", is_block)) {
        return add(is_block ? Token::Kind::block_end : Token::Kind::variable_end, "");
      }
      if (rest_.empty()) fail(fmt::format("a tag {} has no end", is_block ? "{%" : "{{"));
      if (strip_left(rest_).size() < rest_.size()) {
        skip_spaces();
      } else {
        take_token(brackets);
      }
    }
  }

  void take_token(std::string& brackets) {
    const char first = rest_[0];
    if (first == '"' || first == '\'') return take_string();
    if (first >= '0' && first <= '9') return take_number();
    if (const size_t length = name_length(); length > 0) {
      add(Token::Kind::name, std::string(rest_.substr(0, length)));
      return skip(length);
    }
    take_symbol(brackets);
  }

  size_t name_length() const {
    size_t end = 0;
    for (size_t next = 0; next < rest_.size() && is_word_character(next_code_point(rest_, next));) {
      end = next;
    }
    return end;
  }

  void take_symbol(std::string& brackets) {
    const auto known = std::ranges::find_if(
        kLongSymbols, [&](std::string_view symbol) { return rest_.starts_with(symbol); });
    const std::string symbol(known != kLongSymbols.end() ? *known : rest_.substr(0, 1));
    if (symbol.size() == 1 && kShortSymbols.find(symbol[0]) == kShortSymbols.npos) {
      fail(fmt::format("unexpected character '{}'", characters_of(rest_.substr(0, 4))[0]));
    }
    if (std::string_view("([{").find(symbol) != std::string_view::npos) {
      brackets += symbol == "(" ? ')' : symbol == "[" ? ']' : '}';
    } else if (std::string_view(")]}").find(symbol) != std::string_view::npos) {
      if (brackets.empty() || brackets.back() != symbol[0]) fail("unexpected '" + symbol + "'");
      brackets.pop_back();
    }
    add(Token::Kind::symbol, symbol);
    skip(symbol.size());
  }

  void take_number() {
    const auto digits = [&](size_t from) {
      size_t end = from;
      while (end < rest_.size() && (std::isdigit(static_cast<unsigned char>(rest_[end])) ||
                                    (rest_[end] == '_' && end > from))) {
        ++end;
      }
      return end;
    };
    size_t end = digits(0);
    bool is_real = false;
    if (end < rest_.size() && rest_[end] == '.' && digits(end + 1) > end + 1) {
      is_real = true;
      end = digits(end + 1);
    }
    if (end < rest_.size() && (rest_[end] == 'e' || rest_[end] == 'E')) {
      const size_t sign =
          end + 1 < rest_.size() && (rest_[end + 1] == '-' || rest_[end + 1] == '+');
      if (digits(end + 1 + sign) > end + 1 + sign) {
        is_real = true;
        end = digits(end + 1 + sign);
      }
    }
    std::string text(rest_.substr(0, end));
    std::erase(text, '_');
    add(is_real ? Token::Kind::real : Token::Kind::integer, std::move(text));
    skip(end);
  }

  void take_string() {
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != rest_[0]) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) fail("a string has no end");
    add(Token::Kind::string, unescape(rest_.substr(1, end - 1)));
    skip(end + 1);
  }

  std::string unescape(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      const size_t escape = text.find('\\');
      result += text.substr(0, escape);
      if (escape == text.npos) break;
      text.remove_prefix(escape + 1);
      append_escaped(result, text);
    }
    return result;
  }

  // Appends the character of an escape sequence, which it removes from `text`. text: begins after
  // the backslash.
  void append_escaped(std::string& result, std::string_view& text) const {
    static constexpr std::string_view kLetters = "ntrbfav\\'\"";
    static constexpr std::string_view kMeanings = "\n\t\r\b\f\a\v\\'\"";
    const char letter = text[0];
    text.remove_prefix(1);
    if (letter == '\n') return;
    if (const size_t known = kLetters.find(letter); known != kLetters.npos) {
      result += kMeanings[known];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      append_number(result, text, 16, letter == 'x' ? 2 : letter == 'u' ? 4 : 8);
    } else if (letter >= '0' && letter <= '7') {
      size_t length = 1;
      while (length < 3 && length <= text.size() && text[length - 1] >= '0' &&
             text[length - 1] <= '7') {
        ++length;
      }
      const std::string octal = letter + std::string(text.substr(0, length - 1));
      text.remove_prefix(length - 1);
      append_utf8(result, static_cast<char32_t>(std::stoul(octal, nullptr, 8)));
    } else {
      result += '\\';
      result += letter;
    }
  }

  void append_number(std::string& result, std::string_view& text, int base, size_t length) const {
    const std::string digits(text.substr(0, length));
    size_t read = 0;
    unsigned long value = 0;
    if (digits.size() == length && std::isxdigit(static_cast<unsigned char>(digits[0]))) {
      value = std::stoul(digits, &read, base);
    }
    if (read != length || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      fail("a string has an invalid escape");
    }
    text.remove_prefix(length);
    append_utf8(result, static_cast<char32_t>(value));
  }

  std::string source_;
  std::string_view rest_;
  std::vector<Token> tokens_;
  int line_ = 1;
  bool at_line_start_ = true;
};

}  // namespace

std::vector<Token> split_into_tokens(std::string_view source) {
  if (valid_utf8_length(source) < source.size()) {
    throw TemplateError("the template is not UTF-8");
  }
  return Lexer(source).run();
}

}  // namespace colossal::text::jinja
