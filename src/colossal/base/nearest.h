// "Did you mean": the known word closest to one that is unknown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace colossal {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other
// (optimal string alignment distance).
std::size_t edit_distance(std::string_view from, std::string_view to);

// The candidate at the smallest edit distance, the first of several; "" when there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace colossal
