// Finds strings that end a text. The text comes in pieces, and a string may lie across their
// borders.
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
  // Empty strings are left out. include: the string that ended the text is part of it.
  explicit StopStrings(std::vector<std::string> strings, bool include = false);

  // Adds a piece and returns the text that may be given out now: all before the first stop string,
  // and before what may become one. Empty once one was found.
  std::string push(std::string_view text);
  bool found() const { return found_; }
  // Ends the text; returns what was held back.
  std::string flush();

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool include_;
  bool found_ = false;
};

// Request::ends_beam for texts that end with one of the strings; nothing where there are none. The
// tokenizer must outlive the result.
std::function<bool(std::span<const int32_t>)> ends_beam_at(std::vector<std::string> strings,
                                                           const text::Tokenizer& tokenizer);

}  // namespace colossal::serve
