// Takes the longest token that a word begins with, then the longest that its rest begins with, and
// so on. Source: Wu et al., "Google's Neural Machine Translation System", 2016, as BERT uses it.
#pragma once

#include "colossal/text/byte_trie.h"
#include "colossal/text/word_model.h"

namespace colossal::text {

// A word of which any part has no token is unknown as a whole, and so is one that is too long.
class WordPieceModel : public WordModel {
 public:
  // definition: of a WordPiece model. Throws ConfigError where the vocabulary lacks the unknown
  // token.
  WordPieceModel(const TokenizerDefinition& definition, const std::string& file);

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;

 private:
  ByteTrie begins_word_;  // every token
  ByteTrie goes_on_;      // those with the prefix, without it
  int64_t max_characters_;
  int32_t unknown_;
};

}  // namespace colossal::text
