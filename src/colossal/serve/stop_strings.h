// Finds stop strings in a text that arrives in pieces. A stop string may span several pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer.h"

namespace colossal::serve {

class StopStrings {
 public:
  // Empty strings are ignored. include: whether the returned text ends with the stop string or
  // before it.
  explicit StopStrings(std::vector<std::string> strings, bool include = false);

  // Adds a piece of text and returns the text that is now certain: all up to the first stop string
  // or, if none is found, up to a suffix that may be the beginning of one. The suffix is held back.
  // Returns an empty string if a stop string was found before.
  std::string push(std::string_view text);
  bool found() const { return found_; }
  // Ends the text and returns what was held back.
  std::string flush();

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool include_;
  bool found_ = false;
};

// Returns a function for Request::ends_beam that ends texts with one of the strings in them; an
// empty function if `strings` is empty. The tokenizer must outlive the returned function.
std::function<bool(std::span<const int32_t>)> ends_beam_at(std::vector<std::string> strings,
                                                           const text::Tokenizer& tokenizer);

}  // namespace colossal::serve
