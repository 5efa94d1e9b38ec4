// Cuts a text into the words that BPE encodes one by one.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "colossal/text/regex.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

class PreTokenizer {
 public:
  explicit PreTokenizer(const TokenizerDefinition& definition);  // throws ConfigError

  // Calls with each word, from left to right; none is empty. text: valid UTF-8.
  using OnWord = std::function<void(std::string_view)>;
  void split(std::string_view text, RegexScratch& scratch, const OnWord& on_word) const;

 private:
  struct Cut {
    Regex regex;
    bool keep_matches, keep_rest;
  };
  void split_from(size_t cut, std::string_view piece, RegexScratch& scratch,
                  const OnWord& on_word) const;
  void run_cut(size_t cut, std::string_view piece, RegexScratch& scratch,
               const OnWord& on_word) const;

  std::vector<Cut> cuts_;
  bool add_prefix_space_;
  size_t prefix_at_;
};

}  // namespace colossal::text
