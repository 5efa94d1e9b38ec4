// A timeline: one row of labelled spans for each actor, over a common time axis. Drawn as inline
// SVG for a page, as an SVG file, or as text for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::report {

struct TimelineCategory {
  std::string name;  // name in the legend
  int color = 1;     // 1 to 7: one of the page's colors (page.h)
};

struct TimelineSpan {
  double start = 0;
  double end = 0;
  int category = 0;   // index in Timeline::categories
  bool pale = false;  // a lighter color, to tell two kinds of one category apart
  std::string label;  // shown within the span if there is room
  std::string title;  // tooltip
};

struct TimelineRow {
  std::string name;
  std::string note;                 // shown after the row
  std::vector<TimelineSpan> spans;  // ascending, not overlapping
};

// All strings are plain text and may contain any bytes. Times are not negative, in any one unit for
// all spans; time_name may name it.
struct Timeline {
  std::string title;
  std::string note;  // explanation, shown after the title
  std::string time_name = "time";
  std::vector<TimelineCategory> categories;
  std::vector<TimelineRow> rows;
};

// Returns a <figure class="timeline"> for a page (page.h has its style).
std::string timeline_figure(const Timeline& timeline);

// Returns a complete SVG file with its own style, light or dark depending on the reader's system.
std::string timeline_svg(const Timeline& timeline);

// Returns text of at most `width` columns: title, note, and one line per row. A span shows its
// label, truncated to the span's length; dots are time without a span.
std::string timeline_text(const Timeline& timeline, int width);

// Returns the CSS that timeline_figure() and timeline_svg() need in addition to page_colors().
std::string_view timeline_style();

}  // namespace colossal::report
