// Normalizes a text before it is split into words, like the `tokenizers` library.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/charsmap.h"
#include "colossal/text/regex.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Immutable and thread-safe, with one RegexScratch per thread.
class Normalizer {
 public:
  // Throws ConfigError if a step's expression does not compile or its charsmap is invalid.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  bool changes_nothing() const { return steps_.empty(); }
  // text: valid UTF-8. An empty text stays empty.
  std::string normalize(std::string_view text, RegexScratch& scratch) const;

 private:
  struct Step {
    NormalizerStep definition;
    std::optional<Regex> regex;        // only of the kind `replace`
    std::optional<Charsmap> charsmap;  // only of the kind `charsmap`
  };
  static std::string apply(const Step& step, std::string_view text, RegexScratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace colossal::text
