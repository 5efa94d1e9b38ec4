#include "colossal/text/tokenizer/byte_trie.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colossal::text {
namespace {

using testing::ElementsAre;
using testing::Pair;

using Found = std::vector<std::pair<size_t, int32_t>>;

Found prefixes(const ByteTrie& trie, std::string_view text) {
  Found found;
  trie.for_each_prefix(text,
                       [&](size_t length, int32_t value) { found.emplace_back(length, value); });
  return found;
}

TEST(ByteTrie, FindsEveryPrefixTheShortestFirst) {
  const ByteTrie trie({{"ab", 0}, {"a", 1}, {"abcd", 2}, {"b", 3}, {"\xFF", 4}});
  EXPECT_THAT(prefixes(trie, "abcde"), ElementsAre(Pair(1, 1), Pair(2, 0), Pair(4, 2)));
  EXPECT_THAT(prefixes(trie, "abc"), ElementsAre(Pair(1, 1), Pair(2, 0)));
  EXPECT_THAT(prefixes(trie, "\xFF"), ElementsAre(Pair(1, 4)));
  EXPECT_THAT(prefixes(trie, "ca"), ElementsAre());
  EXPECT_THAT(prefixes(trie, ""), ElementsAre());
}

TEST(ByteTrie, FindsWholeStrings) {
  const ByteTrie trie({{"ab", 0}, {"abcd", 1}, {"ab", 2}, {"", 3}});
  EXPECT_EQ(trie.find("abcd"), 1);
  EXPECT_EQ(trie.find("ab"), 2);  // the value of the last of equal keys
  EXPECT_EQ(trie.find("abc"), ByteTrie::kAbsent);
  EXPECT_EQ(trie.find("x"), ByteTrie::kAbsent);
  EXPECT_EQ(trie.find(""), ByteTrie::kAbsent);
  EXPECT_EQ(ByteTrie({}).find("a"), ByteTrie::kAbsent);
}

}  // namespace
}  // namespace colossal::text
