// The JSON header of a safetensors file. Parsed in one pass without building a document, so that
// even a malicious header takes no more memory than its entries.
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
// IoError "SOURCE: reason".
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& source);

}  // namespace colossal::io
