// Expands shell patterns to files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::data {

// Returns the regular files that the pattern matches (including links to files), unordered,
// possibly with duplicates. Shell syntax: `*`, `?` and `[...]` match within a name; a name that
// starts with a dot matches only if the pattern has that dot. `**` as a whole name matches any
// number of folders, without following links to folders; at the end of a pattern it matches all
// files below. Throws IoError if a folder cannot be read.
std::vector<std::string> expand_glob(std::string_view pattern);

}  // namespace colossal::data
