// Splits a normalized text into words as the "pre_tokenizer" of a tokenizer.json defines. The word
// model then encodes each word by itself.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer/regex.h"
#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {

// Splits texts by a sequence of steps. Immutable. Several threads may use one PreTokenizer if each
// thread has its own RegexScratch.
class PreTokenizer {
 public:
  // steps: applied in order. The first step turns the text into pieces. Each further step turns
  // every piece of the step before it into pieces again. The last step's pieces are the words; with
  // no steps, the text is one word. Throws ConfigError if a step's expression does not compile.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  // Receives one word, which is valid only during the call.
  using OnWord = std::function<void(std::string_view)>;
  // Calls on_word with each word, from left to right. Words are not empty. text: valid UTF-8.
  // begins_text: `text` is the beginning of the whole text; false if anything precedes it, even an
  // added token.
  // Words consist of the text's bytes, except that steps may remove parts of the text, replace its
  // spaces, and put prefixes before words. If a step writes the pieces in GPT-2's byte alphabet,
  // split() maps the words back to bytes. If a later step splits such a piece, a word may end
  // within a UTF-8 character. Throws ConfigError if a regular expression exceeds its limits (see
  // Regex::search()).
  void split(std::string_view text, bool begins_text, RegexScratch& scratch,
             const OnWord& on_word) const;

 private:
  // A PreTokenizerStep with its compiled expression.
  struct Step {
    std::string space, prefix;
    bool prefix_begins_text_only;
    std::optional<Regex> regex;
    SplitDefinition::Behavior behavior;
    bool invert;
    bool to_byte_alphabet;
  };
  // Returns true if the step puts its prefix before the piece. In this and the following functions,
  // begins_text means that the piece is the beginning of the whole text.
  static bool needs_prefix(const Step& step, std::string_view piece, bool begins_text);
  // Returns the piece with the step's `space` and `prefix` applied.
  static std::string rewrite(const Step& step, std::string_view piece, bool begins_text);
  // Runs step `index` and all later steps on the piece.
  void run_step(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
                const OnWord& on_word) const;
  // Splits the piece by the expression of step `index`.
  void cut(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
           const OnWord& on_word) const;
  // Passes a piece that step `index` has made to step `index` + 1.
  void pass_on(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
               const OnWord& on_word) const;

  std::vector<Step> steps_;
  bool ends_in_byte_alphabet_ = false;  // the last step's pieces are in GPT-2's byte alphabet
};

}  // namespace colossal::text
