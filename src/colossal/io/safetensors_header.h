// The JSON header of a safetensors file. It is parsed in one pass that builds only the result, not
// a JSON tree, so that even a malicious header takes little memory.
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

// Validates everything that the header alone can show: syntax, types, limits, sizes that match the
// shapes, data that begins at 0 without gaps or overlaps. Does not detect duplicate names. Throws
// IoError "SOURCE: reason". text: the JSON. source: where it comes from.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& source);

}  // namespace colossal::io
