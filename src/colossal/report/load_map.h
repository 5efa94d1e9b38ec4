// A heat map of expert load: one cell per layer and expert.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::report {

// Returns an HTML figure; empty if there are no experts. rows: [block][expert], number of rows
// (tokens) that the expert computed; an empty vector for blocks without experts, which are not
// drawn. A cell is the darker, the more rows the expert had relative to the mean of its layer.
std::string load_map_figure(const std::vector<std::vector<int64_t>>& rows);

}  // namespace colossal::report
