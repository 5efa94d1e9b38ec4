// Keeps texts that users wrote from becoming special tokens in a rendered conversation.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

// Puts marks (a noncharacter, U+FDD0) into texts before a chat template renders them. A mark
// follows each character with which a special token begins. So in the rendered prompt, a special
// token with a mark within it has its first character from a user, and all others are the
// template's, even if the template joins, cuts or wraps the users' texts. Immutable and
// thread-safe.
class SpecialTextGuard {
 public:
  static constexpr std::string_view kMark = "\xEF\xB7\x90";

  // Marks nothing.
  SpecialTextGuard() = default;
  // special: texts of the special tokens. literals: quoted strings of the template. Where a text
  // begins with one of these that has nothing of a special token, it has no mark: the template may
  // search for it.
  SpecialTextGuard(const std::vector<std::string>& special, std::vector<std::string> literals);

  // Marks all strings and keys in `value`. Removes marks that users wrote.
  void mark(nlohmann::ordered_json& value) const;
  // Removes the marks from a rendered text and returns the byte offsets in `text` at which they
  // stood, in ascending order. offsets: byte offsets in the text; they are moved accordingly.
  static std::vector<size_t> take_marks(std::string& text, const std::vector<size_t*>& offsets);

 private:
  std::string marked(std::string_view text) const;
  // Returns whether a template that puts brackets around the text, as in "<" ~ key ~ ">", would
  // write a special token.
  bool completes_token(std::string_view text) const;

  std::vector<std::string> first_characters_;  // of special tokens
  std::set<std::string, std::less<>> inner_;   // special tokens without their brackets
  std::vector<std::string> literals_;
};

}  // namespace colossal::text
