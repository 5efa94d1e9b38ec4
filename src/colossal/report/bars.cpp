#include "colossal/report/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "colossal/report/html.h"

namespace colossal::report {
namespace {

constexpr size_t kBarColors = 7;  // of a page

size_t color_of(size_t part) {
  return part % kBarColors + 1;
}

double length_of(const Bar& bar) {
  return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
}

}  // namespace

std::string bars_figure(const Bars& bars) {
  std::string html =
      fmt::format("<figure class=\"bars\"><figcaption><b>{}</b><span class=\"note\">{}</span>",
                  escape_html(bars.title), escape_html(bars.note));
  html += "</figcaption>\n";
  const auto is_used = [&](size_t part) {
    return std::ranges::any_of(bars.bars, [&](const Bar& bar) { return bar.parts[part] > 0; });
  };
  std::string legend;
  int used = 0;
  for (size_t part = 0; part < bars.parts.size(); ++part) {
    if (!is_used(part)) continue;
    ++used;
    legend += fmt::format("<li class=\"c{}\"><span class=\"name\">{}</span></li>", color_of(part),
                          escape_html(bars.parts[part]));
  }
  if (used > 1) html += "<ul class=\"legend\">" + legend + "</ul>\n";
  double longest = 0;
  for (const Bar& bar : bars.bars) longest = std::max(longest, length_of(bar));
  for (const Bar& bar : bars.bars) {
    html += fmt::format("<div class=\"bar\"><span class=\"name\">{}</span><span class=\"track\">",
                        escape_html(bar.name));
    for (size_t part = 0; part < bar.parts.size(); ++part) {
      if (bar.parts[part] <= 0) continue;
      html +=
          fmt::format("<i class=\"c{}\" style=\"width:{:.3f}%\" title=\"{}\"></i>", color_of(part),
                      100 * bar.parts[part] / longest, escape_html(bars.parts[part]));
    }
    html += fmt::format("</span><span class=\"value\">{}</span></div>\n", escape_html(bar.text));
  }
  return html + "</figure>\n";
}

}  // namespace colossal::report
