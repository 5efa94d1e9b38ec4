#include "colossal/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "colossal/report/axis.h"
#include "colossal/report/html.h"
#include "colossal/report/page.h"

namespace colossal::report {
namespace {

// Lengths in units of the drawing, which are about pixels.
constexpr double kPlotWidth = 1000, kRowHeight = 24, kRowGap = 6, kAxisHeight = 40;
constexpr double kLetter = 7;  // width of a letter of 11 px, rounded up
constexpr double kMargin = 14;

double end_of(const Timeline& timeline) {
  double end = 0;
  for (const TimelineRow& row : timeline.rows) {
    for (const TimelineSpan& span : row.spans) end = std::max(end, span.end);
  }
  return end;
}

size_t longest(const Timeline& timeline, std::string TimelineRow::*text) {
  size_t length = 0;
  for (const TimelineRow& row : timeline.rows) length = std::max(length, (row.*text).size());
  return length;
}

// Coordinates of the drawing. The plot begins at x = 0, right of the names, and at y = 0, above the
// first row.
struct Drawing {
  const Timeline& timeline;
  double end;
  double left;   // room for names
  double right;  // room for notes

  explicit Drawing(const Timeline& shown)
      : timeline(shown),
        end(end_of(shown)),
        left(kLetter * longest(shown, &TimelineRow::name) + kMargin),
        right(kLetter * longest(shown, &TimelineRow::note) + kMargin) {}

  double width() const { return left + kPlotWidth + right; }
  double rows_height() const { return (kRowHeight + kRowGap) * timeline.rows.size(); }
  double x(double time) const { return end > 0 ? kPlotWidth * time / end : 0; }
  double y(size_t row) const { return (kRowHeight + kRowGap) * row; }
};

std::string span_element(const Drawing& drawing, const TimelineSpan& span, double y) {
  const double begin = drawing.x(span.start), width = drawing.x(span.end) - begin;
  std::string svg = fmt::format(
      "<g class=\"c{}{}\"><title>{}</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" "
      "height=\"{:.0f}\"/>",
      drawing.timeline.categories[span.category].color, span.pale ? " pale" : "",
      escape_html(span.title), begin, y, width, kRowHeight);
  if (kLetter * span.label.size() <= width) {
    svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\">{}</text>", begin + width / 2,
                       y + kRowHeight / 2, escape_html(span.label));
  }
  return svg + "</g>\n";
}

std::string rows(const Drawing& drawing) {
  std::string svg;
  for (size_t i = 0; i < drawing.timeline.rows.size(); ++i) {
    const TimelineRow& row = drawing.timeline.rows[i];
    const double y = drawing.y(i), middle = y + kRowHeight / 2;
    svg += fmt::format(
        "<rect class=\"idle\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\"/>"
        "<text class=\"name\" x=\"-8\" y=\"{:.1f}\">{}</text>"
        "<text class=\"after\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n",
        y, kPlotWidth, kRowHeight, middle, escape_html(row.name), kPlotWidth + 8, middle,
        escape_html(row.note));
    for (const TimelineSpan& span : row.spans) svg += span_element(drawing, span, y);
  }
  return svg;
}

std::string time_axis(const Drawing& drawing) {
  const double y = drawing.rows_height() + 12;
  std::string svg;
  if (drawing.end <= 0) return svg;
  for (const Tick& tick : horizontal_axis(0, drawing.end, false).ticks) {
    svg += fmt::format("<text class=\"tick\" x=\"{:.2f}\" y=\"{:.1f}\">{}</text>",
                       std::max(0.0, drawing.x(tick.value)), y, escape_html(tick.label));
  }
  return svg + fmt::format("<text class=\"tick\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n",
                           kPlotWidth / 2, y + 16, escape_html(drawing.timeline.time_name));
}

std::string svg_of(const Drawing& drawing) {
  return rows(drawing) + time_axis(drawing);
}

// Returns title, note and legend, for a file without a page around it.
std::string heading(const Timeline& timeline) {
  std::string svg =
      fmt::format("<text class=\"title\" y=\"-46\">{}</text>\n", escape_html(timeline.title));
  double x = 0;
  for (const TimelineCategory& category : timeline.categories) {
    svg += fmt::format(
        "<g class=\"c{}\"><rect x=\"{:.1f}\" y=\"-29\" width=\"12\" height=\"12\"/><text "
        "class=\"key\" x=\"{:.1f}\" y=\"-23\">{}</text></g>",
        category.color, x, x + 18, escape_html(category.name));
    x += 18 + kLetter * category.name.size() + 18;
  }
  return svg + fmt::format("<text class=\"note\" x=\"{:.1f}\" y=\"-23\">{}</text>\n", x,
                           escape_html(timeline.note));
}

std::string legend_list(const Timeline& timeline) {
  std::string html = "<ul class=\"legend\">";
  for (const TimelineCategory& category : timeline.categories) {
    html += fmt::format("<li class=\"c{}\"><span class=\"name\">{}</span></li>", category.color,
                        escape_html(category.name));
  }
  return html + "</ul>";
}

// Returns the columns per unit of time: as many as the labels need, but at most `room` columns in
// total.
double columns_of_time(const Timeline& timeline, double room) {
  double wanted = 0;
  for (const TimelineRow& row : timeline.rows) {
    for (const TimelineSpan& span : row.spans) {
      if (span.end <= span.start) continue;
      wanted = std::max(wanted, (span.label.size() + 1.0) / (span.end - span.start));
    }
  }
  const double end = end_of(timeline);
  return end > 0 ? std::min(wanted, room / end) : 0;
}

// Returns a span with this number of columns: the label, a line to the end, and a blank before the
// next span.
std::string span_text(std::string_view label, size_t columns) {
  std::string text(label.substr(0, columns));
  text.resize(columns, '-');
  if (columns > label.size()) text.back() = ' ';
  return text;
}

std::string row_text(const TimelineRow& row, double columns, size_t length) {
  std::string text(length, '.');
  for (const TimelineSpan& span : row.spans) {
    const auto begin = static_cast<size_t>(std::llround(span.start * columns));
    const auto end = std::min(length, static_cast<size_t>(std::llround(span.end * columns)));
    if (begin < end) text.replace(begin, end - begin, span_text(span.label, end - begin));
  }
  return text;
}

}  // namespace

std::string timeline_figure(const Timeline& timeline) {
  const Drawing drawing(timeline);
  return fmt::format(
      "<figure class=\"timeline\">\n<figcaption><b>{}</b> <span class=\"note\">{}</span>{}"
      "</figcaption>\n<div class=\"wide\"><svg class=\"spans\" role=\"img\" aria-label=\"{}\" "
      "viewBox=\"{:.0f} -2 {:.0f} {:.0f}\">\n{}</svg></div>\n</figure>\n",
      escape_html(timeline.title), escape_html(timeline.note), legend_list(timeline),
      escape_html(timeline.title), -drawing.left, drawing.width(),
      drawing.rows_height() + kAxisHeight, svg_of(drawing));
}

std::string timeline_svg(const Timeline& timeline) {
  const Drawing drawing(timeline);
  constexpr double kHeading = 70;
  const double left = -drawing.left - kMargin, width = drawing.width() + 2 * kMargin;
  const double height = kHeading + drawing.rows_height() + kAxisHeight;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"spans\" width=\"{2:.0f}\" "
      "height=\"{3:.0f}\" viewBox=\"{0:.0f} {1:.0f} {2:.0f} {3:.0f}\" role=\"img\" "
      "aria-label=\"{4}\">\n<style>{5}{6}</style>\n"
      "<rect class=\"card\" x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{3:.0f}\"/>\n"
      "{7}{8}</svg>\n",
      left, -kHeading, width, height, escape_html(timeline.title), page_colors(), timeline_style(),
      heading(timeline), svg_of(drawing));
}

std::string timeline_text(const Timeline& timeline, int width) {
  const size_t names = longest(timeline, &TimelineRow::name) + 2;
  const size_t notes = longest(timeline, &TimelineRow::note) + 2;
  const double room = std::max(10.0, width - static_cast<double>(names + notes));
  const double columns = columns_of_time(timeline, room);
  const auto length = static_cast<size_t>(std::llround(end_of(timeline) * columns));
  std::string text = timeline.title + "\n";
  if (!timeline.note.empty()) text += timeline.note + "\n";
  for (const TimelineRow& row : timeline.rows) {
    std::string line =
        fmt::format("{:<{}}{}  {}", row.name, names, row_text(row, columns, length), row.note);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string_view timeline_style() {
  return R"css(
.spans { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
.spans rect { fill: var(--color); fill-opacity: .55; stroke: var(--card); stroke-width: 1px; }
.spans .pale rect { fill-opacity: .25; }
.spans .idle { fill: var(--line); fill-opacity: .45; }
.spans .card { fill: var(--card); fill-opacity: 1; stroke: none; }
.spans text { fill: var(--text); text-anchor: middle; dominant-baseline: central;
  pointer-events: none; }
.spans .name { text-anchor: end; }
.spans .after, .spans .key, .spans .note, .spans .title { text-anchor: start; }
.spans .after, .spans .tick, .spans .note { fill: var(--muted); }
.spans .title { font-size: 15px; font-weight: 650; }
)css";
}

}  // namespace colossal::report
