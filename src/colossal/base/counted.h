// Counts with their noun, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "colossal/base/units.h"

namespace colossal {

// Returns "1 file", or "1,234 files". noun: in the singular, with a plural that ends with s.
inline std::string counted(int64_t count, std::string_view noun) {
  return format_count(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace colossal
