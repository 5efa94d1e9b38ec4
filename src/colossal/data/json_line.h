// Reads a document (a text) from a line of a jsonl file. Used by tokenize_files() and
// read_samples().
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace colossal::data {

// Thrown for a line from which no document or sample can be read. what() gives the reason and says
// how to correct the line; it does not name the line.
class InvalidLine : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whether the line is empty, or has only spaces, tabs and carriage returns. Such lines are not
// documents.
bool is_blank(std::string_view line);

// Returns the string in the field `field` of a line, which must be a JSON object. Throws
// InvalidLine if the line is not a JSON object, or has no such field, or if the field is not a
// string.
std::string read_text_field(std::string_view line, const std::string& field);

}  // namespace colossal::data
