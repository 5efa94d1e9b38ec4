#include "colossal/text/tokenizer/character_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "colossal/text/unicode.h"

namespace colossal::text {
namespace {

constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029})"
    R"(\x{202f}\x{205f}\x{3000})";
// All characters except white space.
constexpr std::string_view kNotWhiteSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// Characters of \p{P} in Unicode 14 that `tokenizers` does not count as punctuation.
constexpr std::string_view kLaterPunctuation =
    R"(\x{61d}\x{9fd}\x{a76}\x{c77}\x{c84}\x{1b7d}-\x{1b7e}\x{2e43}-\x{2e4f}\x{2e52}-\x{2e5d})"
    R"(\x{10ead}\x{10f55}-\x{10f59}\x{10f86}-\x{10f89}\x{1144b}-\x{1144f}\x{1145a}-\x{1145b})"
    R"(\x{1145d}\x{11660}-\x{1166c}\x{116b9}\x{1183b}\x{11944}-\x{11946}\x{119e2})"
    R"(\x{11a3f}-\x{11a46}\x{11a9a}-\x{11a9c}\x{11a9e}-\x{11aa2}\x{11c41}-\x{11c45})"
    R"(\x{11c70}-\x{11c71}\x{11ef7}-\x{11ef8}\x{11fff}\x{12ff1}-\x{12ff2}\x{16e97}-\x{16e9a})"
    R"(\x{16fe2}\x{1e95e}-\x{1e95f})";

constexpr std::array<std::string_view, 33> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mc", "Me", "N",  "Nd",
    "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",
    "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

// Returns the category as PCRE2 knows it, and the characters that were added since Unicode 14.
std::string members_of(std::string_view category) {
  std::string members = fmt::format("\\p{{{}}}", category);
  for (const CategoryRange& range : added_since_unicode_14()) {
    if (std::string_view(range.category).starts_with(category)) {
      members += escaped(range.first) + "-" + escaped(range.last);
    }
  }
  return members;
}

}  // namespace

std::string escaped(char32_t character) {
  return fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(character));
}

std::string white_space_members() {
  return std::string(kWhiteSpace);
}

std::string non_white_space_members() {
  return std::string(kNotWhiteSpace);
}

std::optional<std::string> category_members(std::string_view category) {
  if (std::ranges::find(kCategories, category) == kCategories.end()) return std::nullopt;
  return members_of(category);
}

std::string word_members(bool in_class) {
  return members_of("L") + members_of("M") + members_of("Nd") + members_of("Nl") +
         members_of("Pc") +
         R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})" +
         (in_class ? "" : R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})");
}

std::string rust_word_members() {
  return word_members(true) + R"(\x{200c}\x{200d})";
}

std::string punctuation_expression() {
  // Includes U+166D and U+111C9, which other versions of Unicode count as a symbol and as a mark.
  return fmt::format(R"((?:[!-/:-@\[-`{{-~\x{{166d}}\x{{111c9}}]|(?![{}])\p{{P}}))",
                     kLaterPunctuation);
}

}  // namespace colossal::text
