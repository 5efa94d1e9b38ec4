// The JSON header of a safetensors file, parsed in one pass without building a document: a header
// of hostile shape costs no more memory than its entries.
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

// Everything that the text itself can show: syntax, types, limits, sizes that fit their shapes,
// data that begins at 0 and has neither holes nor overlaps. Names may still be double. Throws
// IoError "SOURCE: reason".
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& source);

}  // namespace colossal::io
