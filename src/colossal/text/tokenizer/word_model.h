// The interface of word models (BPE, Unigram, WordPiece). A word model is the part of a tokenizer
// that was learned from data. It encodes one word at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {

// Encodes words as tokens. Immutable. Several threads may use one WordModel if each thread has its
// own Scratch.
class WordModel {
 public:
  // Working memory of encode(). Each model has its own subclass.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~WordModel() = default;

  // Returns working memory for encode() of this model.
  virtual std::unique_ptr<Scratch> make_scratch() const = 0;

  // Appends the tokens of a non-empty word to `tokens`. scratch: from make_scratch() of this model.
  // Throws ConfigError if a BPE or Unigram model gets a word of 2 GiB or more.
  virtual void encode(std::string_view word, Scratch& scratch,
                      std::vector<int32_t>& tokens) const = 0;

  // The character U+2581, by which most character-level vocabularies replace the space.
  static constexpr std::string_view kSpaceMark = "\u2581";
  // Returns true if any word may be cut before each run of kSpaceMark: encoding the parts one by
  // one then gives the word's tokens. The caller cuts words because character-level tokenizers
  // often have no pre-tokenizer, so that a whole text is one word.
  virtual bool can_cut_at_space_marks() const { return false; }

 protected:
  // Throws ConfigError if the word has 2 GiB or more, because positions are 32-bit.
  static void check_length(std::string_view word);
};

// Returns the word model that `definition` describes. file: path of the tokenizer.json, for error
// messages. Throws ConfigError if the vocabulary lacks a token that the model needs.
std::unique_ptr<WordModel> make_word_model(const TokenizerDefinition& definition,
                                           const std::string& file);

}  // namespace colossal::text
