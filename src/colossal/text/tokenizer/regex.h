// Compiled regular expressions (PCRE2) over UTF-8 text. Normalizer and PreTokenizer use them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;
struct pcre2_real_jit_stack_8;

namespace colossal::text {

// Frees PCRE2's objects.
struct RegexDeleter {
  void operator()(pcre2_real_code_8* code) const;
  void operator()(pcre2_real_match_context_8* context) const;
  void operator()(pcre2_real_match_data_8* data) const;
  void operator()(pcre2_real_jit_stack_8* stack) const;
};

// Working memory of a search. Not thread-safe. One object can serve any number of expressions.
class RegexScratch {
 public:
  RegexScratch();

 private:
  friend class Regex;
  std::unique_ptr<pcre2_real_jit_stack_8, RegexDeleter> stack_;
  std::unique_ptr<pcre2_real_match_context_8, RegexDeleter> context_;
  std::unique_ptr<pcre2_real_match_data_8, RegexDeleter> match_;
};

// A compiled expression. Immutable. Several threads may use one Regex if each thread has its own
// RegexScratch.
class Regex {
 public:
  // expression: PCRE2 syntax, such as the result of oniguruma_to_pcre2(). name: the expression as
  // written in the tokenizer.json, for error messages. Throws ConfigError if `expression` does not
  // compile or is longer than 64 KiB.
  Regex(const std::string& expression, std::string name);

  // The bytes [begin, end) of the text.
  struct Match {
    size_t begin, end;
  };
  // Returns the first match that begins at byte `start` or later; nullopt if there is none. The
  // text before `start` counts only for lookbehind and anchors (^, \b). text: valid UTF-8. Throws
  // ConfigError if the search exceeds its limits on backtracking or memory.
  std::optional<Match> search(std::string_view text, size_t start, RegexScratch& scratch) const;

  // Receives one match.
  using OnMatch = std::function<void(Match)>;
  // Calls on_match with each match, from left to right. Matches do not overlap. An empty match is
  // skipped if it lies at the end of the previous match. text: valid UTF-8. Throws like search().
  void for_each_match(std::string_view text, RegexScratch& scratch, const OnMatch& on_match) const;

 private:
  std::string name_;  // the expression as written in the tokenizer.json
  std::unique_ptr<pcre2_real_code_8, RegexDeleter> code_;
  bool is_jit_compiled_;  // false if PCRE2 has no JIT compiler for this machine
};

}  // namespace colossal::text
