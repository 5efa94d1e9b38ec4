// Expands shell patterns to files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::data {

// Returns the regular files (and links to such files) whose paths match the pattern, unordered,
// possibly with duplicates. Shell syntax: `*`, `?` and `[...]` match within a name; a name that
// starts with a dot matches only if the pattern has that dot. `**` as a whole name matches any
// number of folders, without following links to folders; at the end of a pattern it matches all
// files below. A pattern that is itself the path of a file matches only this file. Throws IoError
// if a folder cannot be read.
std::vector<std::string> expand_glob(std::string_view pattern);

}  // namespace colossal::data
