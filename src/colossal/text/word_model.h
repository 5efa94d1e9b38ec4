// Encodes one word: the learned part of a tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Immutable and thread-safe; threads that encode at the same time need a Scratch each.
class WordModel {
 public:
  // Working memory of encode(); each model has its own subclass.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~WordModel() = default;

  virtual std::unique_ptr<Scratch> make_scratch() const = 0;

  // Appends the tokens of a non-empty word to `tokens`. scratch: from this model's make_scratch().
  // Throws ConfigError if a BPE or Unigram model gets a word of 2 GiB or more.
  virtual void encode(std::string_view word, Scratch& scratch,
                      std::vector<int32_t>& tokens) const = 0;

  // U+2581, which replaces spaces in most character-level vocabularies.
  static constexpr std::string_view kSpaceMark = "\u2581";
  // Returns true if a word may be cut before every run of kSpaceMark without changing its tokens.
  // (Character-level tokenizers often have no pre-tokenizer, so that a whole text is one word.)
  virtual bool can_cut_at_space_marks() const { return false; }

 protected:
  // Throws ConfigError if the word has 2 GiB or more: positions are 32-bit.
  static void check_length(std::string_view word);
};

// file: path of the tokenizer.json, for error messages. Throws ConfigError if the vocabulary lacks
// a token that the model needs.
std::unique_ptr<WordModel> make_word_model(const TokenizerDefinition& definition,
                                           const std::string& file);

}  // namespace colossal::text
