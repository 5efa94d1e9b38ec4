#include "colossal/text/unicode.h"

#include <gtest/gtest.h>

#include "colossal/text/tokenizer/normalization_form.h"

namespace colossal::text {
namespace {

TEST(Unicode, LaterCharactersAreInOrder) {
  char32_t before = 0;
  for (const CategoryRange& range : added_since_unicode_14()) {
    EXPECT_GT(range.first, before);
    EXPECT_LE(range.first, range.last);
    before = range.last;
  }
}

TEST(Unicode, WhiteSpaceIsTheProperty) {
  int count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += is_white_space(c);
  EXPECT_EQ(count, 25);
  EXPECT_FALSE(is_white_space(0x180E));  // lost the property in Unicode 6.3
  EXPECT_FALSE(is_white_space(0x200B));
}

TEST(Unicode, WordCharacters) {
  for (char32_t c : {U'a', U'_', U'é', U'५', U'Ⅷ', U'Ⓐ', U'\u0301', U'\u200D', U'\U00031350'}) {
    EXPECT_TRUE(is_word_character(c)) << std::hex << uint32_t{c};
  }
  for (char32_t c : {U' ', U'-', U'½', U'😀', char32_t{0x200B}}) {
    EXPECT_FALSE(is_word_character(c)) << std::hex << uint32_t{c};
  }
}

std::string compose(std::string_view text) {
  return to_normalization_form(text, NormalizationForm::nfc);
}

TEST(Nfc, Composes) {
  EXPECT_EQ(compose("e\u0301 \u1100\u1161\u11A8 \u212B"), "\u00E9 \uAC01 \u00C5");
  EXPECT_EQ(compose("a\u0323\u0301"), "\u1EA1\u0301");
  EXPECT_EQ(compose(""), "");
  const std::string with_nul("a\0e\u0301", 5);
  EXPECT_EQ(compose(with_nul), std::string("a\0\u00E9", 4));
  // U+11A7 is no trailing consonant: the syllable and the character stay as they are.
  EXPECT_EQ(compose("\uAC00\u11A7x \u1100\u1161\u11A7"), "\uAC00\u11A7x \uAC00\u11A7");
  // A mark of Unicode 14 is not reordered, and others do not move past it.
  EXPECT_EQ(compose("a\u0899\u0301"), "a\u0899\u0301");
}

}  // namespace
}  // namespace colossal::text
