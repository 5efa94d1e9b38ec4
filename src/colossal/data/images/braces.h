// Expands braces in patterns of files, as shells do.
#pragma once

#include <string>
#include <vector>

namespace colossal::data {

// Returns the patterns that a pattern stands for: "{a,b}" for each of the texts, "{000..127}" for
// each of the numbers, with as many digits as the longer end has if one begins with 0. Braces
// without a comma or ".." stand for themselves. Throws ConfigError if there are more than a million
// patterns.
std::vector<std::string> expand_braces(const std::string& pattern);

}  // namespace colossal::data
