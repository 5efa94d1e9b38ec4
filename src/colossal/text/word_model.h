// Finds the tokens of one word: the learned part of a tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Immutable; may be used from several threads, each with a Scratch of its own.
class WordModel {
 public:
  // Working memory of encode(); each model has its own kind.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~WordModel() = default;

  virtual std::unique_ptr<Scratch> make_scratch() const = 0;

  // Appends the tokens of the word, which is not empty. scratch: of this model.
  // Throws ConfigError where the word has 2 GiB or more.
  virtual void encode(std::string_view word, Scratch& scratch,
                      std::vector<int32_t>& tokens) const = 0;

  // U+2581, which stands for a space in most vocabularies of characters.
  static constexpr std::string_view kSpaceMark = "\u2581";
  // Whether a word may be cut at the beginning of a run of kSpaceMark without any change to its
  // tokens. (A vocabulary of characters often has no pre-tokenizer, so that a whole text is one
  // word.)
  virtual bool parts_at_space_marks() const { return false; }

 protected:
  // Throws ConfigError where the word has 2 GiB or more, which positions of 32 bits do not reach.
  static void check_length(std::string_view word);
};

// file: path of the tokenizer.json, for messages. Throws ConfigError where the vocabulary lacks a
// token that the model needs.
std::unique_ptr<WordModel> make_word_model(const TokenizerDefinition& definition,
                                           const std::string& file);

}  // namespace colossal::text
