// Finds the known word closest to an unknown word, for "did you mean" messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace colossal {

// Returns the optimal string alignment distance in bytes: the smallest number of insertions,
// deletions, replacements and swaps of neighbouring bytes that change `from` into `to`, if no byte
// is edited twice. For example, "ca" and "abc" have the distance 3: the swap to "ac" followed by an
// insertion between the two does not count.
std::size_t edit_distance(std::string_view from, std::string_view to);

// Returns the candidate with the smallest edit_distance() from `word`; the first such candidate if
// several are equally near; "" if there are no candidates.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace colossal
