// Reads a list of JSON values, or JSON values one after the other, as JSON lines. Used by
// open_rows().
#pragma once

#include <memory>

#include "colossal/data/byte_stream.h"

namespace colossal::data {

// content: of a .json file. If it begins with a list, the lines are the values of this list. If its
// first line is a whole value, its lines are returned as they are. Otherwise a value may take
// several lines, which become one. The values are not checked: only their borders are found.
// path: for messages. read() throws IoError if a list or a value does not end, or ends twice.
std::unique_ptr<ByteStream> json_values_as_lines(std::unique_ptr<ByteStream> content,
                                                 const std::string& path);

}  // namespace colossal::data
