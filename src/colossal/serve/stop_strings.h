// Finds stop strings (texts at which generation ends) in a generated text that arrives in pieces. A
// stop string may span several pieces. Used by the server and `colossal generate`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::serve {

// Searches one text.
class StopStrings {
 public:
  // strings: the stop strings; empty strings are ignored. include: true: the returned text ends
  // with the stop string that was found; false: it ends before the stop string.
  explicit StopStrings(std::vector<std::string> strings, bool include = false);

  // Adds a piece of text and returns the part of the text that can be shown now and was not
  // returned before. If no stop string is found, this part ends before the longest suffix that may
  // be the beginning of a stop string; the suffix is held back. If stop strings are found, the part
  // ends with the stop string that begins first (include) or before it (not include), and the text
  // after it is dropped. If several stop strings begin there, the first of them in `strings`
  // counts. If an earlier call has found a stop string, returns an empty string.
  std::string push(std::string_view text);
  bool found() const { return found_; }                  // whether a stop string was found
  const std::string& string() const { return string_; }  // the stop string that was found; else ""
  // Call at the end of the text: returns the text held back; empty if a stop string was found.
  std::string flush();

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool include_;
  bool found_ = false;
  std::string string_;  // see string()
};

// Returns a function for Request::ends_beam. Given the tokens generated so far, it returns whether
// their text contains one of the stop strings. Returns an empty function if `strings` is empty. The
// tokenizer must outlive the returned function.
std::function<bool(std::span<const int32_t>)> ends_beam_at(std::vector<std::string> strings,
                                                           const text::Tokenizer& tokenizer);

}  // namespace colossal::serve
