// Thins a series out to what a screen of a given width in pixels can show, so that the line looks
// the same.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace colossal::report {

// Indices, ascending, of the points to keep: in each of `columns` equal parts of the range of x the
// first, the lowest, the highest and the last, so that a spike of a single point stays. A column of
// gaps only (see is_plottable) keeps one of them; shorter gaps close. All points are kept where
// there are no more than four a column. x: ascending, as long as y.
std::vector<size_t> min_max_indices(std::span<const double> x, std::span<const double> y,
                                    size_t columns);

}  // namespace colossal::report
