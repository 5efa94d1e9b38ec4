#include "colossal/text/tokenizer/normalization_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "colossal/text/unicode.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

// `tokenizers` normalizes by Unicode 10: characters that were added later do not combine, are not
// reordered and do not decompose. Lists the characters added since, up to Unicode 14, for which
// Unicode 14 says otherwise; added_since_unicode_14() has the later ones.
// clang-format off
constexpr CodePointRange kNormalizedSinceUnicode10[] = {
    {0x7FD, 0x7FD}, {0x898, 0x89F}, {0x8CA, 0x8D3}, {0x9FE, 0x9FE},
    {0xC3C, 0xC3C}, {0xD3B, 0xD3C}, {0xEBA, 0xEBA}, {0x1715, 0x1715},
    {0x1ABF, 0x1ACE}, {0x1DF6, 0x1DFA}, {0xA82C, 0xA82C}, {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070},
    {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930},
    {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x16FF0, 0x16FF1},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    // Characters that decompose.
    {0x32FF, 0x32FF}, {0xA7F2, 0xA7F4}, {0xAB69, 0xAB69}, {0x10781, 0x10785},
    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};
// clang-format on

// U+11A7 composes with nothing, but utf8proc takes it for trailing consonant number 0 of a Hangul
// syllable without one, and drops it. Trailing consonants are numbered from 1 (Unicode 3.12).
constexpr char32_t kBeforeTrailingConsonants = 0x11A7;

bool stays_as_it_is(char32_t character) {
  if (character < 0x7FD) return false;
  if (character == kBeforeTrailingConsonants) return true;
  const auto holds = [&](const auto& range) {
    return character >= range.first && character <= range.last;
  };
  return std::ranges::any_of(kNormalizedSinceUnicode10, holds) ||
         std::ranges::any_of(added_since_unicode_14(), holds);
}

int options_of(NormalizationForm form) {
  using enum NormalizationForm;
  const bool composes = form == nfc || form == nfkc;
  const bool is_compatible = form == nfkc || form == nfkd;
  return UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
         (is_compatible ? UTF8PROC_COMPAT : 0);
}

std::string normalize_all(std::string_view text, NormalizationForm form) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(options_of(form)));
  if (length < 0) throw std::bad_alloc();  // the only possible failure for valid UTF-8
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return {reinterpret_cast<const char*>(result), static_cast<size_t>(length)};
}

}  // namespace

std::string to_normalization_form(std::string_view text, NormalizationForm form) {
  if (is_ascii(text)) return std::string(text);
  std::string result;
  size_t done = 0;
  for (size_t position = 0; position < text.size();) {
    const size_t start = position;
    if (!stays_as_it_is(next_code_point(text, position))) continue;
    result += normalize_all(text.substr(done, start - done), form);
    result += text.substr(start, position - start);
    done = position;
  }
  return result + normalize_all(text.substr(done), form);
}

}  // namespace colossal::text
