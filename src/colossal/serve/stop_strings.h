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
  // Ignores empty strings. include: whether the returned text includes the stop string.
  explicit StopStrings(std::vector<std::string> strings, bool include = false);

  // Adds a piece and returns the text that may be emitted now: everything before the first stop
  // string and before a suffix that may become a stop string. Returns an empty string after a stop
  // string was found.
  std::string push(std::string_view text);
  bool found() const { return found_; }
  // Ends the text and returns the text held back so far.
  std::string flush();

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool include_;
  bool found_ = false;
};

// Returns a Request::ends_beam function that ends texts containing one of the strings; an empty
// function if `strings` is empty. The tokenizer must outlive the returned function.
std::function<bool(std::span<const int32_t>)> ends_beam_at(std::vector<std::string> strings,
                                                           const text::Tokenizer& tokenizer);

}  // namespace colossal::serve
