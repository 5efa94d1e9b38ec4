#include "colossal/tune/rewards/math_answer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::tune {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

// Returns the position of the brace that closes the one at `open`; npos if there is none. A brace
// after a backslash is text.
size_t closing_brace(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Removes a LaTeX command, but not a longer one that begins with it: \left, not \leftarrow.
void remove_command(std::string& text, std::string_view command) {
  size_t at = 0;
  while ((at = text.find(command, at)) != std::string::npos) {
    const size_t end = at + command.size();
    if (end < text.size() && is_letter(text[end])) {
      at = end;
    } else {
      text.erase(at, command.size());
    }
  }
}

// Replaces \text{x} by x.
void unwrap_command(std::string& text, const std::string& command) {
  const std::string opening = command + "{";
  size_t at = 0;
  while ((at = text.find(opening, at)) != std::string::npos) {
    const size_t open = at + command.size(), close = closing_brace(text, open);
    if (close == std::string::npos) return;
    text.erase(close, 1);
    text.erase(at, opening.size());
  }
}

// Writes the braces that LaTeX lets one leave out around single characters: \frac12, \sqrt2.
void add_braces(std::string& text, std::string_view command, int arguments) {
  size_t at = 0;
  while ((at = text.find(command, at)) != std::string::npos) {
    at += command.size();
    for (int i = 0; i < arguments && at < text.size(); ++i) {
      if (text[at] == '{') {
        const size_t close = closing_brace(text, at);
        if (close == std::string::npos) return;
        at = close + 1;
      } else if (is_digit(text[at]) || (is_letter(text[at]) && i > 0)) {
        text.replace(at, 1, {'{', text[at], '}'});
        at += 3;
      } else {
        break;
      }
    }
  }
}

void remove_around(std::string& text, std::string_view open, std::string_view close) {
  if (text.size() >= open.size() + close.size() && text.starts_with(open) &&
      text.ends_with(close)) {
    text = text.substr(open.size(), text.size() - open.size() - close.size());
  }
}

// Returns the answer without blanks and without LaTeX that does not change its meaning.
std::string normalized(std::string text) {
  text = trimmed(text);
  if (text.ends_with('.')) text.pop_back();
  remove_around(text, "$$", "$$");
  remove_around(text, "$", "$");
  remove_around(text, "\\(", "\\)");
  remove_around(text, "\\[", "\\]");
  for (const std::string_view space : {"\\,", "\\!", "\\;", "\\:", "\\ ", "~"}) {
    replace_all(text, space, "");
  }
  for (const char* wrapper : {"\\text", "\\mathrm", "\\textbf", "\\mathbf", "\\mbox"}) {
    unwrap_command(text, wrapper);
  }
  for (const std::string_view size : {"\\left", "\\right"}) remove_command(text, size);
  replace_all(text, "\\dfrac", "\\frac");
  replace_all(text, "\\tfrac", "\\frac");
  replace_all(text, "\\cfrac", "\\frac");
  replace_all(text, "{,}", ",");
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
  add_braces(text, "\\frac", 2);
  add_braces(text, "\\sqrt", 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// A decimal number as its digits, without zeros at either end, times a power of ten.
struct Decimal {
  bool negative = false;
  std::string digits;  // empty: zero
  int64_t exponent = 0;
  bool operator==(const Decimal&) const = default;
};

// Removes the commas between groups of three digits; nullopt if commas stand elsewhere.
std::optional<std::string> without_thousands(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) return std::string(text);
  const size_t end = std::min(text.find('.'), text.size());
  std::string digits;
  for (size_t at = 0; at < end;) {
    const size_t next = std::min(text.find(',', at), end);
    const bool is_first = at == 0;
    const size_t size = next - at;
    if (is_first ? size < 1 || size > 3 : size != 3) return std::nullopt;
    digits.append(text.substr(at, size));
    at = next + 1;
    if (next < end && at >= end) return std::nullopt;
  }
  digits.append(text.substr(end));
  return digits;
}

std::optional<Decimal> decimal_of(std::string_view text) {
  Decimal number;
  if (text.starts_with('-') || text.starts_with('+')) {
    number.negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const auto plain = without_thousands(text);
  if (!plain) return std::nullopt;
  text = *plain;
  bool has_digits = false, after_point = false;
  size_t i = 0;
  for (; i < text.size() && (is_digit(text[i]) || (text[i] == '.' && !after_point)); ++i) {
    if (text[i] == '.') {
      after_point = true;
      continue;
    }
    has_digits = true;
    number.digits += text[i];
    if (after_point) --number.exponent;
  }
  if (!has_digits) return std::nullopt;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    int64_t power = 0;
    const size_t from = i + 1 + (i + 1 < text.size() && text[i + 1] == '+' ? 1 : 0);
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), power);
    if (error != std::errc() || std::abs(power) > 100'000) return std::nullopt;
    number.exponent += power;
    i = end - text.data();
  }
  if (i != text.size()) return std::nullopt;
  while (number.digits.ends_with('0')) {
    number.digits.pop_back();
    ++number.exponent;
  }
  number.digits.erase(0, std::min(number.digits.find_first_not_of('0'), number.digits.size()));
  if (number.digits.empty()) return Decimal();
  return number;
}

// A number as a fraction of two decimals.
struct Fraction {
  Decimal numerator, denominator;
};

long double value_of(const Decimal& number) {
  if (number.digits.empty()) return 0;
  const long double digits = std::stold(number.digits);
  return (number.negative ? -digits : digits) *
         std::pow(10.0L, static_cast<long double>(number.exponent));
}

std::optional<Fraction> fraction_of(std::string_view text) {
  const Decimal one{.digits = "1"};
  if (const auto number = decimal_of(text)) return Fraction{*number, one};
  bool negative = false;
  if (text.starts_with('-')) {
    negative = true;
    text.remove_prefix(1);
  }
  std::optional<Decimal> numerator, denominator;
  if (constexpr std::string_view kFraction = "\\frac{"; text.starts_with(kFraction)) {
    const size_t open = kFraction.size() - 1, close = closing_brace(text, open);
    if (close == std::string_view::npos || close + 1 >= text.size() || text[close + 1] != '{' ||
        closing_brace(text, close + 1) != text.size() - 1) {
      return std::nullopt;
    }
    numerator = decimal_of(text.substr(open + 1, close - open - 1));
    denominator = decimal_of(text.substr(close + 2, text.size() - close - 3));
  } else if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    numerator = decimal_of(text.substr(0, slash));
    denominator = decimal_of(text.substr(slash + 1));
  }
  if (!numerator || !denominator || denominator->digits.empty()) return std::nullopt;
  if (negative && !numerator->digits.empty()) numerator->negative = !numerator->negative;
  return Fraction{*numerator, *denominator};
}

bool are_equal(const Fraction& a, const Fraction& b) {
  if (a.denominator == b.denominator) return a.numerator == b.numerator;
  const long double left = value_of(a.numerator) * value_of(b.denominator);
  const long double right = value_of(b.numerator) * value_of(a.denominator);
  return std::abs(left - right) <= 1e-15L * std::max(std::abs(left), std::abs(right));
}

// Returns the parts between commas that are within no brackets.
std::vector<std::string> elements_of(std::string_view text) {
  std::vector<std::string> elements;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == '}' || text[i] == ')' || text[i] == ']') --depth;
    if (text[i] != ',' || depth != 0) continue;
    elements.emplace_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  elements.emplace_back(text.substr(begin));
  return elements;
}

// Returns what follows the name of a variable and an equals sign.
std::string without_variable(const std::string& text) {
  const size_t equals = text.find('=');
  const bool is_named = equals != std::string::npos && equals > 0 &&
                        std::all_of(text.begin(), text.begin() + equals, is_letter);
  return is_named ? text.substr(equals + 1) : text;
}

bool are_same(const std::string& given, const std::string& expected) {
  const auto a = fraction_of(given), b = fraction_of(expected);
  if (a && b) return are_equal(*a, *b);
  if (a || b) return false;
  if (given == expected) return true;
  for (const char* brackets : {"()", "[]"}) {
    const auto is_within = [&](const std::string& text) {
      return text.size() > 2 && text.front() == brackets[0] && text.back() == brackets[1];
    };
    if (is_within(given) && is_within(expected)) {
      return are_same(given.substr(1, given.size() - 2), expected.substr(1, expected.size() - 2));
    }
  }
  const std::vector<std::string> mine = elements_of(given), theirs = elements_of(expected);
  return mine.size() > 1 && std::ranges::equal(mine, theirs, are_same);
}

}  // namespace

std::string find_answer(const std::string& text) {
  constexpr std::string_view kBoxed = "\\boxed{", kOpen = "<answer>", kClose = "</answer>";
  for (size_t at = text.rfind(kBoxed); at != std::string::npos;
       at = at == 0 ? std::string::npos : text.rfind(kBoxed, at - 1)) {
    const size_t begin = at + kBoxed.size(), end = closing_brace(text, begin - 1);
    if (end != std::string::npos) return trimmed(std::string_view(text).substr(begin, end - begin));
  }
  if (const size_t at = text.rfind(kOpen); at != std::string::npos) {
    const size_t begin = at + kOpen.size(), end = text.find(kClose, begin);
    if (end != std::string::npos) return trimmed(std::string_view(text).substr(begin, end - begin));
  }
  return trimmed(text);
}

bool is_same_answer(const std::string& given, const std::string& expected) {
  std::string a = normalized(given), b = normalized(expected);
  if ((a.find('=') == std::string::npos) != (b.find('=') == std::string::npos)) {
    a = without_variable(a);
    b = without_variable(b);
  }
  return are_same(a, b);
}

}  // namespace colossal::tune
