#include "colossal/text/tokenizer/oniguruma.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/character_sets.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

// Pairs of letters that, ignoring case, also match one character in Oniguruma ("ss" matches the
// sharp s), but not in PCRE2.
constexpr std::array<std::string_view, 5> kFoldingPairs = {"ss", "ff", "fi", "fl", "st"};

bool is_ascii_alphanumeric(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A backslash escape: one character, or a set of characters.
struct Escape {
  std::optional<char32_t> character;
  std::string members = {};  // the set, as members of a PCRE2 class
  bool negated = false;
};

// Translates an Oniguruma expression to PCRE2. Refuses what the two treat differently.
class Translator {
 public:
  explicit Translator(std::string_view expression) : in_(expression) {}

  std::string run() {
    while (position_ < in_.size()) translate_element();
    if (ignore_case_.size() > 1) refuse("a group without its )");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw ConfigError(fmt::format(
        "the regular expression {} has {} at byte {}, which is not supported here; supported are "
        "literals, classes, \\s \\d \\w \\p{{general category}}, groups, (?i:...), lookaround and "
        "quantifiers",
        in_, what, position_));
  }

  bool at(std::string_view token) const { return in_.substr(position_).starts_with(token); }
  bool accept(std::string_view token) {
    if (!at(token)) return false;
    position_ += token.size();
    return true;
  }

  void translate_element() {
    const char c = in_[position_];
    const char32_t before = std::exchange(previous_literal_, 0);
    if (c == '[') return translate_class();
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '{') return translate_interval();
    if (accept(".")) return void(out_ += "[^\\n]");
    if (c == '|' || c == '^' || c == '$') return void(out_ += in_[position_++]);
    if (c == '*' || c == '+' || c == '?') {
      out_ += in_[position_++];
      if (at("?") || at("+")) out_ += in_[position_++];  // lazy, possessive
      return;
    }
    if (c != '\\') return literal(next_code_point(in_, position_), before);
    const Escape escape = read_escape(false);
    if (escape.character) return literal(*escape.character, before);
    out_ += fmt::format("[{}{}]", escape.negated ? "^" : "", escape.members);
  }

  void literal(char32_t character, char32_t before) {
    if (ignore_case_.back()) check_case_folding(character, before);
    out_ += is_ascii_alphanumeric(character) ? std::string(1, static_cast<char>(character))
                                             : escaped(character);
    previous_literal_ = character;
  }

  // Refuses characters that ignore case differently in Oniguruma and PCRE2: all beyond ASCII, and
  // some pairs of ASCII letters.
  void check_case_folding(char32_t character, char32_t before) const {
    if (character >= 0x80) refuse("a character beyond ASCII under (?i:");
    const auto lower = [](char32_t c) { return static_cast<char>(c | 0x20); };
    const std::string pair = {lower(before), lower(character)};
    if (std::ranges::find(kFoldingPairs, pair) != kFoldingPairs.end()) {
      refuse(fmt::format("\"{}\" under (?i:", pair));
    }
  }

  void open_group() {
    bool ignore_case = ignore_case_.back();
    if (accept("(?i:")) {
      ignore_case = true;
      out_ += "(?i:";
    } else if (accept("(?-i:")) {
      ignore_case = false;
      out_ += "(?-i:";
    } else if (const auto kind = accept_group_kind()) {
      out_ += *kind;
    } else if (at("(?")) {
      refuse(fmt::format("\"{}\"", in_.substr(position_, 4)));
    } else {
      ++position_;
      out_ += "(?:";  // no back reference needs the capture
    }
    ignore_case_.push_back(ignore_case);
  }

  std::optional<std::string_view> accept_group_kind() {
    for (std::string_view kind : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (accept(kind)) return kind;
    }
    return std::nullopt;
  }

  void close_group() {
    if (ignore_case_.size() == 1) refuse("a ) without its group");
    ignore_case_.pop_back();
    out_ += in_[position_++];
  }

  // Translates {n}, {n,}, {,m} and {n,m}; any other { is a literal.
  void translate_interval() {
    size_t end = position_ + 1;
    const auto read_number = [&] {
      const size_t start = end;
      while (end < in_.size() && in_[end] >= '0' && in_[end] <= '9') ++end;
      return in_.substr(start, end - start);
    };
    const std::string_view least = read_number();
    const bool has_comma = end < in_.size() && in_[end] == ',';
    if (has_comma) ++end;
    const std::string_view most = has_comma ? read_number() : std::string_view();
    if (end >= in_.size() || in_[end] != '}' || (least.empty() && most.empty())) {
      ++position_;
      return literal('{', 0);
    }
    position_ = end + 1;
    out_ += fmt::format("{{{}{}{}}}", least.empty() ? "0" : least, has_comma ? "," : "", most);
    if (at("+") || (at("?") && !has_comma)) refuse("a quantifier after an interval");
    if (accept("?")) out_ += '?';
  }

  Escape read_escape(bool in_class) {
    const size_t start = position_++;
    if (position_ == in_.size()) refuse("a \\ at its end");
    const char32_t c = next_code_point(in_, position_);
    if (const size_t control = std::string_view("tnrfvae").find(static_cast<char>(c));
        c < 0x80 && control != std::string::npos) {
      return {"\t\n\r\f\v\a\x1B"[control]};
    }
    switch (c) {
      case 'x':
        return {read_hexadecimal(accept("{") ? "}" : "", 2)};
      case 'u':
        return {read_hexadecimal("", 4)};
      case 's':
      case 'S':
        return {{},
                c == 's' || !in_class ? white_space_members() : non_white_space_members(),
                c == 'S' && !in_class};
      case 'd':
      case 'D':
        return {{}, *category_members("Nd"), c == 'D'};
      case 'w':
      case 'W':
        return {{}, word_members(in_class), c == 'W'};
      case 'p':
      case 'P':
        return read_property(c == 'P');
      default:
        if (c < 0x80 && !is_ascii_alphanumeric(c)) return {c};
        const std::string_view escape = in_.substr(start, position_ - start);
        position_ = start;
        refuse(fmt::format("\"{}\"", escape));
    }
  }

  // Reads digits up to `terminator`, or exactly `num_digits` digits if it is empty.
  char32_t read_hexadecimal(std::string_view terminator, size_t num_digits) {
    const size_t end =
        terminator.empty() ? position_ + num_digits : in_.find(terminator, position_);
    if (end > in_.size() || end == position_ || end - position_ > 6) refuse("a bad \\x or \\u");
    char32_t value = 0;
    for (; position_ < end; ++position_) {
      const char c = in_[position_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) refuse("a bad \\x or \\u");
      value = value * 16 + digit;
    }
    position_ += terminator.size();
    // \x80 to \xFF are bytes for Oniguruma, not characters.
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      refuse("a number that is no character");
    if (terminator.empty() && num_digits == 2 && value >= 0x80)
      refuse("a byte that is no character");
    return value;
  }

  Escape read_property(bool negated) {
    if (!accept("{")) refuse("\\p without {");
    if (accept("^")) negated = !negated;
    const size_t end = in_.find('}', position_);
    if (end == std::string_view::npos) refuse("\\p{ without }");
    const std::string_view name = in_.substr(position_, end - position_);
    const auto members = category_members(name);
    if (!members) refuse(fmt::format("the property \"{}\"", name));
    if (ignore_case_.back()) refuse("a property under (?i:");
    position_ = end + 1;
    return {{}, *members, negated};
  }

  void translate_class() {
    ++position_;
    out_ += accept("^") ? "[^" : "[";
    translate_class_members();
    out_ += ']';
  }

  // Translates members up to the end of the class. A nested class adds its members.
  void translate_class_members() {
    if (at("]")) refuse("an empty class");
    while (!accept("]")) {
      if (position_ >= in_.size()) refuse("a class without its ]");
      if (at("[^")) refuse("a negated class within a class");
      if (at("[:")) refuse("a POSIX class");
      if (at("&&")) refuse("an intersection of classes");
      if (accept("[")) {
        translate_class_members();
      } else {
        translate_class_member();
      }
    }
  }

  void translate_class_member() {
    const Escape first = read_class_member();
    const bool is_range = at("-") && !at("-]");
    if (!first.character) {
      if (is_range) refuse("a range that begins with a set");
      if (first.negated) refuse("a negated set within a class");
      out_ += first.members;
      return;
    }
    out_ += escaped(*first.character);
    if (!is_range) return;
    if (*first.character == '-') refuse("a range that begins with -");
    ++position_;
    const Escape last = read_class_member();
    if (!last.character || (at("-") && !at("-]"))) refuse("an ambiguous range");
    out_ += "-" + escaped(*last.character);
  }

  Escape read_class_member() {
    Escape member;
    if (at("\\")) {
      member = read_escape(true);
    } else if (position_ < in_.size() && in_[position_] != '[') {
      member.character = next_code_point(in_, position_);
    } else {
      refuse("a class without its ]");
    }
    if (ignore_case_.back() && member.character.value_or(0) >= 0x80) {
      refuse("a character beyond ASCII under (?i:");
    }
    return member;
  }

  std::string_view in_;
  size_t position_ = 0;
  std::string out_;
  std::vector<bool> ignore_case_ = {false};  // for each open group, outermost first
  char32_t previous_literal_ = 0;            // 0: the last element was no literal
};

}  // namespace

std::string oniguruma_to_pcre2(std::string_view expression) {
  return Translator(expression).run();
}

std::string literal_to_pcre2(std::string_view text) {
  std::string expression;
  for (size_t position = 0; position < text.size();) {
    expression += escaped(next_code_point(text, position));
  }
  return expression;
}

}  // namespace colossal::text
