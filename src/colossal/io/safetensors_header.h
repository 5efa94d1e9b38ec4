// Parses the JSON header of a safetensors file, for SafetensorsReader (safetensors.h). The parser
// builds the result in one pass, without a JSON tree, so that even a malicious header takes little
// memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/io/safetensors.h"

namespace colossal::io {

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  // in order of their data
  SafetensorsMetadata metadata;
};

// Parses and validates `text`, the JSON. Checks the syntax, the types, the limits kMaxTensors,
// kMaxRank and kMaxNameBytes (safetensors.h), that sizes match shapes, and that the data begins at
// 0 without gaps or overlaps. Does not check that tensors' names differ. source: where the text
// comes from, such as a path. Throws IoError with the message "SOURCE: reason" if the header is
// invalid.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& source);

}  // namespace colossal::io
