// Downsamples a series of points for drawing: reduces it to as many points as a screen can show,
// without changing how its line looks. Used by drawn_series.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace colossal::report {

// Returns the indices of the points (x[i], y[i]) to keep, ascending. The range of x is divided into
// `columns` equal parts. Of each part, keeps the first, the lowest, the highest and the last point,
// so a spike of a single point remains visible. Of gaps, i.e. points whose y is not plottable
// (is_plottable(), axis.h), keeps one in a part that has only gaps, and none in other parts. Keeps
// all points if there are at most 4 * columns. x: ascending. Throws InternalError if x and y have
// different lengths, or if `columns` is 0.
std::vector<size_t> min_max_indices(std::span<const double> x, std::span<const double> y,
                                    size_t columns);

}  // namespace colossal::report
