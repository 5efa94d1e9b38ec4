// Reduces a series to the points that a screen can show, without changing how its line looks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace colossal::report {

// Returns the indices of the points to keep, ascending. The range of x is divided into `columns`
// equal parts. Each part keeps its first, lowest, highest and last point, so a spike of a single
// point remains visible. Gaps (see is_plottable()) are dropped; a part with nothing but gaps keeps
// one. Keeps all points if there are at most 4 * columns. x: ascending, as long as y.
std::vector<size_t> min_max_indices(std::span<const double> x, std::span<const double> y,
                                    size_t columns);

}  // namespace colossal::report
