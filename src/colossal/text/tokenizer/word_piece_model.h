// The WordPiece model of BERT: from left to right, takes the longest token with which the rest of
// the word begins. The first token of a word may be any token. Each further token must have the
// continuing prefix ("##"), and is compared with the rest of the word without this prefix. Example:
// "played" may become "play", "##ed". Source: Wu et al., "Google's Neural Machine Translation
// System", 2016, in the variant of BERT.
#pragma once

#include "colossal/text/tokenizer/byte_trie.h"
#include "colossal/text/tokenizer/word_model.h"

namespace colossal::text {

// The word model "WordPiece" (see WordModel). encode() appends the tokens of a word to `tokens`. A
// whole word becomes the unknown token if no token matches at some position, or if the word has
// more than max_word_characters characters (of the WordPieceDefinition).
class WordPieceModel : public WordModel {
 public:
  // definition.model must be a WordPieceDefinition. file: path of the tokenizer.json, for error
  // messages. Throws ConfigError if the vocabulary lacks the unknown token.
  WordPieceModel(const TokenizerDefinition& definition, const std::string& file);

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;

 private:
  ByteTrie begins_word_;  // all tokens; matched at the beginning of a word
  // Tokens with the continuing prefix ("##"), stored without this prefix; matched within a word.
  ByteTrie continues_word_;
  int64_t max_characters_;  // longer words become the unknown token
  int32_t unknown_;         // id of the unknown token
};

}  // namespace colossal::text
