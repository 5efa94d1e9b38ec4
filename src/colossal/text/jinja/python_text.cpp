#include "colossal/text/jinja/python_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "colossal/text/unicode.h"
#include "colossal/text/utf8.h"

namespace colossal::text::jinja {
namespace {

// SpecialTextGuard's mark. It stays as it is, to be removed from the rendered text.
constexpr char32_t kGuardMark = 0xFDD0;

// The characters that strip() removes: white space, or given characters.
class Stripped {
 public:
  explicit Stripped(std::optional<std::string_view> what) {
    if (!what) return;
    characters_.emplace();
    for (size_t position = 0; position < what->size();) {
      characters_->push_back(next_code_point(*what, position));
    }
    std::ranges::sort(*characters_);
  }

  bool has(char32_t character) const {
    return characters_ ? std::ranges::binary_search(*characters_, character)
                       : is_python_space(character);
  }

 private:
  std::optional<std::vector<char32_t>> characters_;  // sorted; unset: white space
};

utf8proc_category_t category(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool is_letter(char32_t character) {
  const auto kind = category(character);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t character) {
  return category(character) == UTF8PROC_CATEGORY_ND;
}

bool is_printable(char32_t character) {
  switch (category(character)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return character == ' ';
    default:
      return true;
  }
}

void append_upper(std::string& text, char32_t character) {
  if (character == U'ß') {
    text += "SS";
  } else {
    append_utf8(text,
                static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character))));
  }
}

void append_title(std::string& text, char32_t character) {
  if (character == U'ß') {
    text += "Ss";
  } else {
    append_utf8(text,
                static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(character))));
  }
}

bool is_cased(char32_t character) {
  const auto kind = category(character);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT;
}

template <class Function>  // void(char32_t)
void for_each_character(std::string_view text, Function function) {
  for (size_t position = 0; position < text.size();) function(next_code_point(text, position));
}

std::vector<std::string> split_at_spaces(std::string_view text, int64_t max_splits) {
  std::vector<std::string> parts;
  text = strip_left(text);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.emplace_back(text);
      break;
    }
    size_t end = 0, next = 0;
    while (next < text.size() && !is_python_space(next_code_point(text, next))) end = next;
    parts.emplace_back(text.substr(0, end));
    text = strip_left(text.substr(end));
  }
  return parts;
}

std::vector<std::string> split_at_spaces_from_right(std::string_view text, int64_t max_splits) {
  std::vector<std::string> parts;
  text = strip_right(text);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.emplace_back(text);
      break;
    }
    size_t begin = text.size(), next = begin;
    while (next > 0 && !is_python_space(previous_code_point(text, next))) begin = next;
    parts.emplace_back(text.substr(begin));
    text = strip_right(text.substr(0, begin));
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> split_from_left(std::string_view text, std::string_view separator,
                                         int64_t max_splits) {
  std::vector<std::string> parts;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t found = find_text(text, separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, found));
    text.remove_prefix(found + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::string reversed_bytes(std::string_view text) {
  return {text.rbegin(), text.rend()};
}

// Splits the reversed text from the left, and reverses the parts.
std::vector<std::string> split_from_right(std::string_view text, std::string_view separator,
                                          int64_t max_splits) {
  std::vector<std::string> parts =
      split_from_left(reversed_bytes(text), reversed_bytes(separator), max_splits);
  for (std::string& part : parts) part = reversed_bytes(part);
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    next_code_point(text, position);
    characters.emplace_back(text.substr(begin, position - begin));
  }
  return characters;
}

int64_t length_of(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

std::string_view first_characters(std::string_view text, int64_t count) {
  size_t end = 0;
  for (; count > 0 && end < text.size(); --count) next_code_point(text, end);
  return text.substr(0, end);
}

// Takes linear time, unlike std::string_view::find(), which may compare all of `wanted` at each
// place.
size_t find_text(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const std::string_view rest = text.substr(from);
  const void* const found = memmem(rest.data(), rest.size(), wanted.data(), wanted.size());
  return found ? static_cast<const char*>(found) - text.data() : std::string_view::npos;
}

size_t find_last(std::string_view text, std::string_view wanted) {
  const size_t found = find_text(reversed_bytes(text), reversed_bytes(wanted));
  return found == std::string::npos ? found : text.size() - found - wanted.size();
}

bool is_python_space(char32_t character) {
  return (character >= 0x1C && character <= 0x1F) || is_white_space(character);
}

std::string_view strip_left(std::string_view text, std::optional<std::string_view> what) {
  const Stripped stripped(what);
  size_t begin = 0;
  for (size_t next = 0; next < text.size() && stripped.has(next_code_point(text, next));) {
    begin = next;
  }
  return text.substr(begin);
}

std::string_view strip_right(std::string_view text, std::optional<std::string_view> what) {
  size_t end = text.size();
  const Stripped stripped(what);
  for (size_t next = end; next > 0 && stripped.has(previous_code_point(text, next));) end = next;
  return text.substr(0, end);
}

std::string_view strip_both(std::string_view text, std::optional<std::string_view> what) {
  return strip_left(strip_right(text, what), what);
}

std::vector<std::string> split_text(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t max_splits,
                                    bool from_right) {
  if (!separator) {
    return from_right ? split_at_spaces_from_right(text, max_splits)
                      : split_at_spaces(text, max_splits);
  }
  return from_right ? split_from_right(text, *separator, max_splits)
                    : split_from_left(text, *separator, max_splits);
}

std::vector<std::string> split_into_lines(std::string_view text, bool keep_ends) {
  static constexpr std::u32string_view kEnds = U"\n\r\v\f\x1C\x1D\x1E\x85\u2028\u2029";
  std::vector<std::string> lines;
  size_t begin = 0, position = 0;
  while (position < text.size()) {
    const size_t end = position;
    const char32_t character = next_code_point(text, position);
    if (kEnds.find(character) == kEnds.npos) continue;
    if (character == '\r' && position < text.size() && text[position] == '\n') ++position;
    lines.emplace_back(text.substr(begin, (keep_ends ? position : end) - begin));
    begin = position;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replace_text(std::string_view text, std::string_view from, std::string_view to,
                         int64_t max_count, size_t max_bytes) {
  std::string result;
  int64_t count = 0;
  size_t position = 0;
  const auto may_replace = [&] { return max_count < 0 || count < max_count; };
  while (position < text.size() && may_replace() && result.size() <= max_bytes) {
    size_t found = from.empty() ? position : find_text(text, from, position);
    if (found == std::string_view::npos) break;
    result.append(text, position, found - position);
    result += to;
    ++count;
    position = found + from.size();
    if (from.empty()) {  // an empty text is found between any two characters
      next_code_point(text, position);
      result.append(text, found, position - found);
    }
  }
  result.append(text.substr(position));
  if (from.empty() && may_replace()) result += to;
  return result;
}

std::string upper_case(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t character) { append_upper(result, character); });
  return result;
}

std::string lower_case(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t character) { append_lower_case(result, character); });
  return result;
}

std::string capitalized(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t character) {
    result.empty() ? append_title(result, character) : append_lower_case(result, character);
  });
  return result;
}

std::string title_case(std::string_view text) {
  std::string result;
  bool within_word = false;
  for_each_character(text, [&](char32_t character) {
    within_word ? append_lower_case(result, character) : append_title(result, character);
    within_word = is_cased(character);
  });
  return result;
}

bool all_are(std::string_view text, CharacterClass wanted) {
  bool all = !text.empty();
  for_each_character(text, [&](char32_t character) {
    if (wanted == CharacterClass::spaces) all = all && is_python_space(character);
    if (wanted == CharacterClass::letters) all = all && is_letter(character);
    if (wanted == CharacterClass::digits) all = all && is_digit(character);
    if (wanted == CharacterClass::letters_or_digits) {
      all = all && (is_letter(character) || is_digit(character));
    }
  });
  return all;
}

bool has_case(std::string_view text, bool upper) {
  bool any = false, all = true;
  for_each_character(text, [&](char32_t character) {
    if (!is_cased(character)) return;
    any = true;
    const auto kind = category(character);
    // Letters in title case are neither.
    all = all && kind != UTF8PROC_CATEGORY_LT && (kind == UTF8PROC_CATEGORY_LU) == upper;
  });
  return any && all;
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[400];
  const double size = std::fabs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  const auto end =
      plain ? std::to_chars(buffer, std::end(buffer), value, std::chars_format::fixed)
            : std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string python_quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string result(1, quote);
  for_each_character(text, [&](char32_t character) {
    if (character == static_cast<char32_t>(quote) || character == '\\') {
      result += '\\';
      append_utf8(result, character);
    } else if (character == '\n') {
      result += "\\n";
    } else if (character == '\r') {
      result += "\\r";
    } else if (character == '\t') {
      result += "\\t";
    } else if (is_printable(character) || character == kGuardMark) {
      append_utf8(result, character);
    } else if (character < 0x100) {
      result += fmt::format("\\x{:02x}", static_cast<uint32_t>(character));
    } else if (character < 0x10000) {
      result += fmt::format("\\u{:04x}", static_cast<uint32_t>(character));
    } else {
      result += fmt::format("\\U{:08x}", static_cast<uint32_t>(character));
    }
  });
  return result + quote;
}

std::string json_quoted(std::string_view text, bool ensure_ascii) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
  static constexpr std::string_view kLetters = "\"\\nrtbf";
  std::string result = "\"";
  for_each_character(text, [&](char32_t character) {
    const size_t known =
        character < 0x80 ? kEscaped.find(static_cast<char>(character)) : std::string_view::npos;
    const auto value = static_cast<uint32_t>(character);
    if (known != std::string_view::npos) {
      result += '\\';
      result += kLetters[known];
    } else if (character == kGuardMark) {
      append_utf8(result, character);
    } else if (value < 0x20 || (ensure_ascii && value > 0x7F && value < 0x10000)) {
      result += fmt::format("\\u{:04x}", value);
    } else if (ensure_ascii && value >= 0x10000) {
      result += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10),
                            0xDC00 + ((value - 0x10000) & 0x3FF));
    } else {
      append_utf8(result, character);
    }
  });
  return result + "\"";
}

}  // namespace colossal::text::jinja
