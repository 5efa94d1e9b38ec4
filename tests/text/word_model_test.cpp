// Unigram and WordPiece with results by hand; oracle_test.cpp compares them with `tokenizers`.
#include "colossal/text/tokenizer/word_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"

namespace colossal::text {
namespace {

using testing::ElementsAre;

std::vector<int32_t> encode(const TokenizerDefinition& definition, std::string_view word) {
  const auto model = make_word_model(definition, "tokenizer.json");
  const auto scratch = model->make_scratch();
  std::vector<int32_t> tokens;
  model->encode(word, *scratch, tokens);
  return tokens;
}

// Returns a definition in which token 0 is the unknown token.
TokenizerDefinition unigram(const std::vector<std::pair<std::string, double>>& tokens,
                            bool byte_fallback = false) {
  UnigramDefinition model{.scores = {0}, .unknown = 0, .byte_fallback = byte_fallback};
  TokenizerDefinition definition{.vocabulary = {{"<unk>", 0}}};
  for (const auto& [token, score] : tokens) {
    definition.vocabulary.emplace_back(token, static_cast<int32_t>(model.scores.size()));
    model.scores.push_back(score);
  }
  definition.model = model;
  return definition;
}

TEST(UnigramModel, TakesTheLargestSumOfScores) {
  const auto definition = unigram({{"a", -1}, {"b", -1}, {"ab", -1.5}, {"abab", -4}});
  EXPECT_THAT(encode(definition, "abab"), ElementsAre(3, 3));  // -3 is better than -4
  EXPECT_THAT(encode(definition, "aab"), ElementsAre(1, 3));
  EXPECT_THAT(encode(definition, ""), ElementsAre());
}

TEST(UnigramModel, OfEqualSumsTakesTheLastTokenThatBeginsFirst) {
  EXPECT_THAT(encode(unigram({{"a", -1}, {"aa", -1}}), "aaa"), ElementsAre(1, 2));
}

TEST(UnigramModel, JoinsWhatIsUnknown) {
  const auto definition = unigram({{"a", -1}, {"é", -2}});
  EXPECT_THAT(encode(definition, "xyaxé"), ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(encode(definition, "<unk>x"), ElementsAre(0));
}

TEST(UnigramModel, FallsBackToBytesWhereAllHaveTokens) {
  const auto definition = unigram({{"a", -1}, {"<0xC3>", 0}, {"<0xA9>", 0}}, true);
  EXPECT_THAT(encode(definition, "aéa"), ElementsAre(1, 2, 3, 1));
  // Joined, the characters are unknown: one byte has no token.
  EXPECT_THAT(encode(definition, "éx"), ElementsAre(0));
}

TokenizerDefinition word_piece() {
  return {.vocabulary = {{"[UNK]", 0}, {"un", 1}, {"unable", 2}, {"##able", 3}, {"##a", 4}},
          .model = WordPieceDefinition{"[UNK]", "##", 10}};
}

TEST(WordPieceModel, TakesTheLongestFirst) {
  EXPECT_THAT(encode(word_piece(), "unable"), ElementsAre(2));
  EXPECT_THAT(encode(word_piece(), "unaable"), ElementsAre(1, 4, 3));
}

TEST(WordPieceModel, AWordWithAnUnknownPartIsUnknown) {
  EXPECT_THAT(encode(word_piece(), "unablex"), ElementsAre(0));
  EXPECT_THAT(encode(word_piece(), "able"), ElementsAre(0));         // "able" cannot begin a word
  EXPECT_THAT(encode(word_piece(), "unableablea"), ElementsAre(0));  // eleven characters
  EXPECT_THAT(encode(word_piece(), "unableable"), ElementsAre(2, 3));
}

TEST(WordPieceModel, NeedsItsUnknownToken) {
  TokenizerDefinition definition = word_piece();
  definition.vocabulary.erase(definition.vocabulary.begin());
  EXPECT_THROW(encode(definition, "un"), ConfigError);
}

}  // namespace
}  // namespace colossal::text
