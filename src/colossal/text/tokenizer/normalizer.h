// Normalizes a text as the "normalizer" of a tokenizer.json defines, before the text is split into
// words. The results are those of the `tokenizers` library.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer/charsmap.h"
#include "colossal/text/tokenizer/regex.h"
#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {

// Normalizes texts by a sequence of steps. Immutable. Several threads may use one Normalizer if
// each thread has its own RegexScratch.
class Normalizer {
 public:
  // steps: applied in order. Throws ConfigError if a step's expression does not compile or its
  // charsmap is invalid.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  // Returns true if there are no steps.
  bool changes_nothing() const { return steps_.empty(); }
  // Returns the normalized text. text: valid UTF-8. Throws ConfigError if a regular expression
  // exceeds its limits (see Regex::search()) or an index in a charsmap is out of range.
  std::string normalize(std::string_view text, RegexScratch& scratch) const;

 private:
  // A NormalizerStep with what is compiled from it.
  struct Step {
    NormalizerStep definition;
    std::optional<Regex> regex;        // set if the kind is `replace`
    std::optional<Charsmap> charsmap;  // set if the kind is `charsmap`
  };
  // Returns `text` after one step.
  static std::string apply(const Step& step, std::string_view text, RegexScratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace colossal::text
