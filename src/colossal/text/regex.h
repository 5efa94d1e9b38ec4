// A compiled PCRE2 expression over UTF-8 text.
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

struct RegexDeleter {
  void operator()(pcre2_real_code_8* code) const;
  void operator()(pcre2_real_match_context_8* context) const;
  void operator()(pcre2_real_match_data_8* data) const;
  void operator()(pcre2_real_jit_stack_8* stack) const;
};

// Working memory of a search. Not thread-safe; can be reused for any number of expressions.
class RegexScratch {
 public:
  RegexScratch();

 private:
  friend class Regex;
  std::unique_ptr<pcre2_real_jit_stack_8, RegexDeleter> stack_;
  std::unique_ptr<pcre2_real_match_context_8, RegexDeleter> context_;
  std::unique_ptr<pcre2_real_match_data_8, RegexDeleter> match_;
};

// Immutable and thread-safe, with one RegexScratch per thread.
class Regex {
 public:
  // expression: PCRE2 syntax, e.g. from oniguruma_to_pcre2(). name: the expression as the user
  // wrote it, for error messages. Throws ConfigError if `expression` does not compile.
  Regex(const std::string& expression, std::string name);

  struct Match {
    size_t begin, end;  // byte offsets in the text
  };
  // Returns the first match that begins at byte `start` or later. The text before `start` counts
  // only for lookbehind and anchors (^, \b). text: valid UTF-8. Throws ConfigError if the search
  // exceeds its limits on backtracking or memory.
  std::optional<Match> search(std::string_view text, size_t start, RegexScratch& scratch) const;

  // Calls on_match with each match, from left to right. Skips an empty match at the end of the
  // previous match. Requires and throws the same as search().
  using OnMatch = std::function<void(Match)>;
  void for_each_match(std::string_view text, RegexScratch& scratch, const OnMatch& on_match) const;

 private:
  std::string name_;  // the expression as the user wrote it
  std::unique_ptr<pcre2_real_code_8, RegexDeleter> code_;
  bool is_jit_compiled_;  // false if PCRE2 has no JIT compiler for this machine
};

}  // namespace colossal::text
