#include "colossal/report/load_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace colossal::report {
namespace {

// Upper bounds of the shades, as multiples of the mean number of rows. Cells above the last bound
// have the darkest shade.
constexpr std::array kShades{0.25, 0.5, 0.75, 1.25, 1.75, 2.5, 4.0};
constexpr int64_t kMostTitles = 4096;  // most cells with titles, which show their numbers

size_t shade_of(double of_mean) {
  return static_cast<size_t>(std::ranges::upper_bound(kShades, of_mean) - kShades.begin());
}

double opacity_of(size_t shade) {
  return 0.06 + 0.94 * static_cast<double>(shade) / kShades.size();
}

struct Line {
  size_t block;
  const std::vector<int64_t>* rows;
};

std::vector<Line> lines_of(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<Line> lines;
  for (size_t block = 0; block < rows.size(); ++block) {
    if (!rows[block].empty()) lines.push_back({block, &rows[block]});
  }
  return lines;
}

std::string legend() {
  std::string html = "<ul class=\"legend\">";
  for (size_t shade = 0; shade <= kShades.size(); ++shade) {
    const std::string range = shade == kShades.size() ? fmt::format("from {}", kShades.back())
                                                      : fmt::format("below {}", kShades[shade]);
    html += fmt::format("<li><span class=\"c1 shade\" style=\"opacity:{:.2f}\"></span>{}</li>",
                        opacity_of(shade), range);
  }
  return html + "</ul>";
}

}  // namespace

std::string load_map_figure(const std::vector<std::vector<int64_t>>& rows) {
  const std::vector<Line> lines = lines_of(rows);
  if (lines.empty()) return "";
  const auto experts = static_cast<int64_t>(lines.front().rows->size());
  const bool with_titles = experts * static_cast<int64_t>(lines.size()) <= kMostTitles;
  std::array<std::string, kShades.size() + 1> paths;
  std::string titles;
  for (size_t y = 0; y < lines.size(); ++y) {
    const std::vector<int64_t>& of_line = *lines[y].rows;
    const double mean =
        std::accumulate(of_line.begin(), of_line.end(), 0.0) / static_cast<double>(of_line.size());
    for (size_t x = 0; x < of_line.size(); ++x) {
      const double of_mean = mean > 0 ? static_cast<double>(of_line[x]) / mean : 0;
      paths[shade_of(of_mean)] += fmt::format("M{} {}h1v1h-1z", x, y);
      if (!with_titles) continue;
      titles += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" opacity=\"0\"><title>block {}, expert "
          "{}: {} rows, {:.2f} of the mean</title></rect>\n",
          x, y, lines[y].block, x, of_line[x], of_mean);
    }
  }
  std::string drawn;
  for (size_t shade = 0; shade < paths.size(); ++shade) {
    if (paths[shade].empty()) continue;
    drawn +=
        fmt::format("<path fill-opacity=\"{:.2f}\" d=\"{}\"/>\n", opacity_of(shade), paths[shade]);
  }
  return fmt::format(
      "<figure class=\"load-map\">\n<figcaption><b>Rows of experts</b> <span "
      "class=\"note\">over the mean of their layer; a line for each layer, from block {} down, a "
      "column for each of {} experts</span>{}</figcaption>\n<svg class=\"c1\" viewBox=\"0 0 {} "
      "{}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"How many rows each expert "
      "had\">\n{}{}</svg>\n</figure>\n",
      lines.front().block, experts, legend(), experts, lines.size(), drawn, titles);
}

}  // namespace colossal::report
