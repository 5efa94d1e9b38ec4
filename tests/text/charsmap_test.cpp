// Invalid tables; valid ones are compared with `tokenizers` in oracle_test.cpp.
#include "colossal/text/tokenizer/charsmap.h"

#include <gtest/gtest.h>

#include <random>

#include "colossal/base/error.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

std::string table_of(std::vector<uint32_t> units, const std::string& replacements) {
  units.insert(units.begin(), static_cast<uint32_t>(units.size() * sizeof(uint32_t)));
  return std::string(reinterpret_cast<const char*>(units.data()), units.size() * sizeof(uint32_t)) +
         replacements;
}

// Returns a table that replaces "a" by the text at `value` in `replacements`. The root's children
// are at the indices of their bytes.
std::string table_for_a(uint32_t value, const std::string& replacements) {
  std::vector<uint32_t> units(256);
  units['a'] = 'a' | 1u << 8 | ('a' ^ 200u) << 10;
  units[200] = value | 1u << 31;
  return table_of(units, replacements);
}

TEST(Charsmap, Replaces) {
  const Charsmap charsmap(table_for_a(2, std::string("x\0yz", 4)));
  EXPECT_EQ(charsmap.replace("ab\u00E4a"), "yzb\u00E4yz");
  EXPECT_EQ(charsmap.replace("a\u0301b"), "yzb");  // a grapheme that begins with a key
}

TEST(Charsmap, RefusesWhatIsBroken) {
  EXPECT_THROW(Charsmap(""), ConfigError);
  EXPECT_THROW(Charsmap(table_of({}, "x")), ConfigError);
  EXPECT_THROW(Charsmap(table_for_a(0, "x").substr(0, 100)), ConfigError);
  EXPECT_THROW(Charsmap(table_for_a(0, "\xFF")), ConfigError);
  EXPECT_THROW(Charsmap(table_for_a(3, "x")).replace("a"), ConfigError);
  EXPECT_THROW(Charsmap(table_for_a(1, "\u00E4")).replace("a"), ConfigError);
}

TEST(Charsmap, AnyTrieGivesTextOrIsRefused) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint32_t> units(512);
    for (size_t i = 0; i < units.size(); ++i) {
      units[i] = (random() & 0xFF00FF00u & random()) | (i & 0xFF) | (random() % 512) << 10;
    }
    const Charsmap charsmap(table_of(units, "some \u00E4 text"));
    try {
      const std::string text = charsmap.replace("every text e\u0301\r\n \U0001F600 is replaced");
      EXPECT_EQ(valid_utf8_length(text), text.size());
    } catch (const ConfigError&) {
    }
  }
}

}  // namespace
}  // namespace colossal::text
