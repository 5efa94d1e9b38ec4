// A picture of how busy the experts of each layer were: a cell for each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::report {

// rows: by block and expert, how many each had; blocks without experts have none, and no line. The
// darker a cell, the more rows the expert had, as a multiple of its layer's mean. Empty where there
// are no experts.
std::string load_map_figure(const std::vector<std::vector<int64_t>>& rows);

}  // namespace colossal::report
