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

class PreTokenizer {
 public:
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);  // throws ConfigError

  // Calls on_word for each word, from left to right; words are not empty. A word may end within a
  // UTF-8 character if a step splits bytes. text: valid UTF-8. begins_text: nothing precedes
  // `text`, not even an added token.
  using OnWord = std::function<void(std::string_view)>;
  void split(std::string_view text, bool begins_text, RegexScratch& scratch,
             const OnWord& on_word) const;

 private:
  struct Step {
    std::string space, prefix;
    bool prefix_begins_text_only;
    std::optional<Regex> regex;
    SplitDefinition::Behavior behavior;
    bool invert;
    bool to_byte_alphabet;
  };
  static bool needs_prefix(const Step& step, std::string_view piece, bool begins_text);
  static std::string rewrite(const Step& step, std::string_view piece, bool begins_text);
  void run_step(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
                const OnWord& on_word) const;
  void cut(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
           const OnWord& on_word) const;
  void give(size_t index, std::string_view piece, bool begins_text, RegexScratch& scratch,
            const OnWord& on_word) const;

  std::vector<Step> steps_;
  bool ends_in_byte_alphabet_ = false;
};

}  // namespace colossal::text
