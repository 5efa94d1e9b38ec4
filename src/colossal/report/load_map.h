// A heat map of the load of experts, for the report of a mixture-of-experts model: one cell for
// each block and expert.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::report {

// Returns the heat map as an HTML figure; an empty string if no block has experts. rows:
// [block][expert], the number of tokens that the expert has computed; rows[block] is empty for a
// block without experts, which is not drawn. All blocks with experts must have the same number of
// experts. The more tokens an expert has computed, relative to the mean over the experts of its
// block, the more opaque is its cell.
std::string load_map_figure(const std::vector<std::vector<int64_t>>& rows);

}  // namespace colossal::report
