// A heat map of the load of experts: one cell for each layer and expert.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::report {

// Returns an HTML figure; empty if there are no experts. rows: [block][expert], the number of rows
// (tokens) that the expert computed; empty for a block without experts, which is not drawn. The
// more rows an expert had, relative to the mean of its layer, the darker its cell.
std::string load_map_figure(const std::vector<std::vector<int64_t>>& rows);

}  // namespace colossal::report
