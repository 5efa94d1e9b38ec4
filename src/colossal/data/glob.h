// Finds the files that shell patterns match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::data {

// The regular files that the pattern matches (links to files included), in no particular order,
// possibly twice. As in a shell: `*`, `?` and `[...]` within a name, names that start with a dot
// only where the pattern spells the dot. `**` as a whole name stands for any number of folders,
// links to folders not followed; at the end of the pattern, for all files below.
// Throws IoError for a folder that cannot be read.
std::vector<std::string> expand_glob(std::string_view pattern);

}  // namespace colossal::data
