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

// Working memory of a search. One thread at a time may use it, with any number of expressions.
class RegexScratch {
 public:
  RegexScratch();

 private:
  friend class Regex;
  std::unique_ptr<pcre2_real_jit_stack_8, RegexDeleter> stack_;
  std::unique_ptr<pcre2_real_match_context_8, RegexDeleter> context_;
  std::unique_ptr<pcre2_real_match_data_8, RegexDeleter> match_;
};

class Regex {
 public:
  // expression: as oniguruma_to_pcre2() gives it. name: what the user wrote, for messages.
  // Throws ConfigError where it does not compile.
  Regex(const std::string& expression, std::string name);

  struct Match {
    size_t begin, end;  // bytes of the text
  };
  // The first match that begins at `start` or later; what lies before `start` is seen by
  // lookbehind only. text: valid UTF-8. Throws ConfigError where the search exceeds its limits.
  std::optional<Match> search(std::string_view text, size_t start, RegexScratch& scratch) const;

  // Called with each match, from left to right. An empty match that touches the one before does not
  // count.
  using OnMatch = std::function<void(Match)>;
  void for_each_match(std::string_view text, RegexScratch& scratch, const OnMatch& on_match) const;

 private:
  std::string name_;
  std::unique_ptr<pcre2_real_code_8, RegexDeleter> code_;
  bool has_machine_code_;  // the library may be built without the compiler for this machine
};

}  // namespace colossal::text
