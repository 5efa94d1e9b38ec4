// Splits a text into words, which the word model encodes one by one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/regex.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Immutable and thread-safe, with one RegexScratch per thread.
class PreTokenizer {
 public:
  // Throws ConfigError if a step's expression does not compile.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  // Calls on_word with each word, from left to right. Words are not empty, are never in GPT-2's
  // byte alphabet, and are valid only during the call. A word may end within a UTF-8 character if a
  // step splits the byte alphabet. text: valid UTF-8. begins_text: nothing precedes `text`, not
  // even an added token.
  using OnWord = std::function<void(std::string_view)>;
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
  // In these functions, `begins_text` means that the piece is the beginning of the whole text.
  static bool needs_prefix(const Step& step, std::string_view piece, bool begins_text);
  static std::string rewrite(const Step& step, std::string_view piece, bool begins_text);
  // Runs step `index` and all later steps on the piece.
  void run_step(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
                const OnWord& on_word) const;
  // Splits the piece by the expression of step `index`.
  void cut(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
           const OnWord& on_word) const;
  // Passes a piece that step `index` has made on to the next step.
  void pass_on(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
               const OnWord& on_word) const;

  std::vector<Step> steps_;
  bool ends_in_byte_alphabet_ = false;
};

}  // namespace colossal::text
