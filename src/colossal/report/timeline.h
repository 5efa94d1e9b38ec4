// Draws timelines, e.g. of the ranks of a pipeline: one row of labelled spans (intervals of time)
// for each rank, over a common time axis. A timeline can be drawn as a figure of an HTML page, as
// an SVG file, or as text for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::report {

// A kind of span, with a color and a line in the legend.
struct TimelineCategory {
  std::string name;  // name in the legend
  int color = 1;     // 1 to 7: one of the page's colors (page.h)
};

// An interval of time in a row.
struct TimelineSpan {
  double start = 0;   // time
  double end = 0;     // time, at least `start`
  int category = 0;   // index in Timeline::categories
  bool pale = false;  // drawn in a lighter color, to distinguish spans of one category
  std::string label;  // shown within the span if there is room
  std::string title;  // tooltip
};

// A row of the timeline, e.g. for a rank.
struct TimelineRow {
  std::string name;
  std::string note;                 // shown to the right of the row
  std::vector<TimelineSpan> spans;  // ascending, not overlapping
};

// All strings are plain text and may contain any bytes. Times must not be negative; they are in any
// unit, the same for all spans.
struct Timeline {
  std::string title;
  std::string note;                // explanation, shown after the title
  std::string time_name = "time";  // label of the time axis, e.g. with the unit
  std::vector<TimelineCategory> categories;
  std::vector<TimelineRow> rows;
};

// Returns the timeline as HTML: a <figure class="timeline"> for a page that html_page() (page.h)
// returns, which has the style.
std::string timeline_figure(const Timeline& timeline);

// Returns the timeline as a complete SVG file with its own style, light or dark as the reader's
// system prefers.
std::string timeline_svg(const Timeline& timeline);

// Returns the timeline as text: title, note, and one line per row. The lines of rows have at most
// `width` columns (but at least ten columns for the spans). A span shows its label, truncated to
// the length of the span and padded with "-"; dots are time without a span.
std::string timeline_text(const Timeline& timeline, int width);

// Returns the CSS of timelines. It uses colors that page_colors() (page.h) defines. The results of
// html_page() and timeline_svg() include this CSS and these colors.
std::string_view timeline_style();

}  // namespace colossal::report
