// Downsamples a series to the resolution of a screen without changing the look of the line.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace colossal::report {

// Returns the indices, ascending, of the points to keep. The range of x is divided into `columns`
// equal parts, and the first, lowest, highest and last point of each part are kept, so spikes of a
// single point remain visible. A column that consists of gaps (see is_plottable) keeps one gap;
// shorter gaps are dropped. Keeps all points if there are at most 4 * columns. x: ascending, same
// length as y.
std::vector<size_t> min_max_indices(std::span<const double> x, std::span<const double> y,
                                    size_t columns);

}  // namespace colossal::report
