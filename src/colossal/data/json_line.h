// Reads a document from a line of a jsonl file.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace colossal::data {

// Thrown for a line from which no document can be read; what() gives the reason and a fix.
class InvalidLine : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns true if the line has only spaces, tabs and carriage returns, and thus no document.
bool is_blank(std::string_view line);

// Returns the string in field `field` of the line's JSON object. Throws InvalidLine.
std::string read_text_field(std::string_view line, const std::string& field);

}  // namespace colossal::data
