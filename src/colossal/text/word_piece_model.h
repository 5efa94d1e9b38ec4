// WordPiece: repeatedly takes the longest token that the rest of the word begins with. Source: Wu
// et al., "Google's Neural Machine Translation System", 2016, in BERT's variant.
#pragma once

#include "colossal/text/byte_trie.h"
#include "colossal/text/word_model.h"

namespace colossal::text {

// The whole word becomes the unknown token if at some position no token matches, or if the word has
// more than max_characters_ characters.
class WordPieceModel : public WordModel {
 public:
  // definition.model must be a WordPieceDefinition. file: for error messages. Throws ConfigError if
  // the vocabulary lacks the unknown token.
  WordPieceModel(const TokenizerDefinition& definition, const std::string& file);

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;

 private:
  ByteTrie begins_word_;     // all tokens: may match at the beginning of a word
  ByteTrie continues_word_;  // tokens with the continuing prefix ("##"), stored without this prefix
  int64_t max_characters_;
  int32_t unknown_;
};

}  // namespace colossal::text
