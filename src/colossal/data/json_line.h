// Reads a document from a line of JSON.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace colossal::data {

// A line is no document; what() says why, and what would work.
class InvalidLine : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// White space only: no document.
bool is_blank(std::string_view line);

// The string in this field of the line's object. Throws InvalidLine.
std::string read_text_field(std::string_view line, const std::string& field);

}  // namespace colossal::data
