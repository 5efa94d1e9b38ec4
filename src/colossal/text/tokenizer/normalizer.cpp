#include "colossal/text/tokenizer/normalizer.h"

#include <algorithm>

#include "colossal/text/unicode.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

using Kind = NormalizerStep::Kind;

std::string replace_matches(const Regex& regex, const std::string& content, std::string_view text,
                            RegexScratch& scratch) {
  std::string result;
  size_t done = 0;
  regex.for_each_match(text, scratch, [&](Regex::Match match) {
    result += text.substr(done, match.begin - done);
    result += content;
    done = match.end;
  });
  return result.append(text.substr(done));
}

template <typename Append>  // void(std::string& result, char32_t character)
std::string map_characters(std::string_view text, const Append& append) {
  std::string result;
  result.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    append(result, next_code_point(text, position));
  }
  return result;
}

template <typename Drops>  // bool(char32_t)
std::string without(std::string_view text, const Drops& drops) {
  return map_characters(text, [&](std::string& result, char32_t character) {
    if (!drops(character)) append_utf8(result, character);
  });
}

template <size_t size>
bool is_in(const CodePointRange (&ranges)[size], char32_t character) {
  return std::ranges::any_of(ranges, [&](const CodePointRange& range) {
    return character >= range.first && character <= range.last;
  });
}

std::string strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    size_t next = 0;
    if (!is_white_space(next_code_point(text, next))) break;
    text.remove_prefix(next);
  }
  while (right && !text.empty()) {
    size_t before = text.size();
    if (!is_white_space(previous_code_point(text, before))) break;
    text = text.substr(0, before);
  }
  return std::string(text);
}

// Characters that BERT drops: control, format and private-use characters.
// clang-format off
constexpr CodePointRange kControls[] = {
    {0x0, 0x8}, {0xB, 0xC}, {0xE, 0x1F}, {0x7F, 0x9F}, {0xAD, 0xAD}, {0x600, 0x605},
    {0x61C, 0x61C}, {0x6DD, 0x6DD}, {0x70F, 0x70F}, {0x180E, 0x180E}, {0x200B, 0x200F},
    {0x202A, 0x202E}, {0x2060, 0x2064}, {0x2066, 0x206F}, {0xE000, 0xF8FF}, {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB}, {0xFFFD, 0xFFFD}, {0x110BD, 0x110BD}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}, {0xF0000, 0xFFFFD},
    {0x100000, 0x10FFFD}};
constexpr CodePointRange kIdeographs[] = {
    {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F},
    {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
constexpr CodePointRange kControlsOfNmt[] = {
    {0x1, 0x8}, {0xB, 0xB}, {0xE, 0x1F}, {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
constexpr CodePointRange kSpacesOfNmt[] = {
    {0x9, 0xA}, {0xC, 0xD}, {0x1680, 0x1680}, {0x200B, 0x200F}, {0x2028, 0x2029},
    {0x2581, 0x2581}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
// clang-format on

// A fast path: most characters are printable ASCII, which the functions below do not change.
bool is_printable_ascii(char32_t character) {
  return character >= 0x20 && character < 0x7F;
}

void append_cleaned(std::string& result, char32_t character) {
  if (is_printable_ascii(character)) return void(result += static_cast<char>(character));
  if (is_in(kControls, character)) return;
  append_utf8(result, is_white_space(character) ? ' ' : character);
}

void append_cleaned_for_nmt(std::string& result, char32_t character) {
  if (is_printable_ascii(character)) return void(result += static_cast<char>(character));
  if (is_in(kControlsOfNmt, character)) return;
  append_utf8(result, is_in(kSpacesOfNmt, character) ? ' ' : character);
}

void append_spaced_ideograph(std::string& result, char32_t character) {
  if (is_printable_ascii(character) || !is_in(kIdeographs, character)) {
    return append_utf8(result, character);
  }
  result += ' ';
  append_utf8(result, character);
  result += ' ';
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& definition : steps) {
    Step step{definition, {}, {}};
    if (definition.kind == Kind::replace) {
      step.regex.emplace(definition.pattern.expression, definition.pattern.name);
    } else if (definition.kind == Kind::charsmap) {
      step.charsmap.emplace(definition.content);
    }
    steps_.push_back(std::move(step));
  }
}

std::string Normalizer::normalize(std::string_view text, RegexScratch& scratch) const {
  std::string normalized(text);
  for (const Step& step : steps_) normalized = apply(step, normalized, scratch);
  return normalized;
}

std::string Normalizer::apply(const Step& step, std::string_view text, RegexScratch& scratch) {
  const NormalizerStep& definition = step.definition;
  switch (definition.kind) {
    case Kind::form:
      return to_normalization_form(text, definition.form);
    case Kind::prepend:
      return text.empty() ? std::string() : definition.content + std::string(text);
    case Kind::replace:
      return replace_matches(*step.regex, definition.content, text, scratch);
    case Kind::lower_case:
      return map_characters(text, append_lower_case);
    case Kind::strip:
      return strip(text, definition.strip_left, definition.strip_right);
    case Kind::strip_marks:
      return without(text, is_combining_mark);
    case Kind::strip_accents:
      return without(to_normalization_form(text, NormalizationForm::nfd), is_nonspacing_mark);
    case Kind::clean:
      return map_characters(text, append_cleaned);
    case Kind::space_ideographs:
      return map_characters(text, append_spaced_ideograph);
    case Kind::clean_nmt:
      return map_characters(text, append_cleaned_for_nmt);
    case Kind::charsmap:
      return step.charsmap->replace(text);
  }
  return std::string(text);
}

}  // namespace colossal::text
