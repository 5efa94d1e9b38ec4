#include "colossal/text/character_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "colossal/text/unicode.h"

namespace colossal::text {
namespace {

constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029})"
    R"(\x{202f}\x{205f}\x{3000})";
// All characters but those.
constexpr std::string_view kNotWhiteSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

constexpr std::array<std::string_view, 33> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mc", "Me", "N",  "Nd",
    "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",
    "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

// The category as PCRE2 knows it, and the characters that came later.
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

}  // namespace colossal::text
