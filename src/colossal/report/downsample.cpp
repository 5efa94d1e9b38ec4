#include "colossal/report/downsample.h"

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/report/axis.h"

namespace colossal::report {
namespace {

// Appends the indices to keep of the points [begin, end), which is not empty: first, lowest,
// highest and last.
void keep_of_column(std::span<const double> y, size_t begin, size_t end,
                    std::vector<size_t>& kept) {
  std::vector<size_t> extremes;  // first, lowest, highest, last
  for (size_t i = begin; i < end; ++i) {
    if (!is_plottable(y[i])) continue;
    if (extremes.empty()) extremes.assign(4, i);
    if (y[i] < y[extremes[1]]) extremes[1] = i;
    if (y[i] > y[extremes[2]]) extremes[2] = i;
    extremes[3] = i;
  }
  if (extremes.empty()) extremes.push_back(begin);
  std::ranges::sort(extremes);
  const auto repeated = std::ranges::unique(extremes);
  kept.insert(kept.end(), extremes.begin(), repeated.begin());
}

}  // namespace

std::vector<size_t> min_max_indices(std::span<const double> x, std::span<const double> y,
                                    size_t columns) {
  COLOSSAL_CHECK(x.size() == y.size() && columns > 0, "{} x, {} y, {} columns", x.size(), y.size(),
                 columns);
  std::vector<size_t> kept;
  if (x.size() <= 4 * columns) {
    kept.resize(x.size());
    std::iota(kept.begin(), kept.end(), size_t{0});
    return kept;
  }
  const double width = (x.back() - x.front()) / static_cast<double>(columns);
  size_t begin = 0;
  for (size_t column = 1; column <= columns && begin < x.size(); ++column) {
    const double border = x.front() + width * static_cast<double>(column);
    const bool last = column == columns;
    const size_t end =
        last
            ? x.size()
            : static_cast<size_t>(std::lower_bound(x.begin() + begin, x.end(), border) - x.begin());
    if (end > begin) keep_of_column(y, begin, end, kept);
    begin = end;
  }
  return kept;
}

}  // namespace colossal::report
