// Expands shell patterns (globs) such as "text/**/*.txt" to the files that they match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::data {

// Returns the paths of the regular files, and of symbolic links to regular files, that match the
// pattern; unordered, possibly with duplicates; empty if there are none. `*`, `?` and `[...]` match
// within a name of a file or folder, as in a shell. A name that begins with a dot matches only if
// the pattern has that dot. `**` in place of a name matches zero or more nested folders, except
// links to folders; at the end of a pattern, it matches all files in these folders. A pattern that
// is itself the path of a file matches only this file. Throws IoError if a folder cannot be read.
std::vector<std::string> expand_glob(std::string_view pattern);

}  // namespace colossal::data
