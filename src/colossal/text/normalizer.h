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

class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);  // throws ConfigError

  bool changes_nothing() const { return steps_.empty(); }
  // text: valid UTF-8. An empty text stays empty.
  std::string normalize(std::string_view text, RegexScratch& scratch) const;

 private:
  struct Step {
    NormalizerStep definition;
    std::optional<Regex> regex;
    std::optional<Charsmap> charsmap;
  };
  static std::string apply(const Step& step, std::string_view text, RegexScratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace colossal::text
