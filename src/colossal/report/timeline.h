// Who does what, and when: a row of labelled spans for each, over one axis of time. As inline SVG
// for a page, as an SVG file, and as text for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::report {

struct TimelineCategory {
  std::string name;  // in the legend
  int color = 1;     // 1 to 7, one of the page's colours
};

struct TimelineSpan {
  double start = 0;
  double end = 0;
  int category = 0;   // index in Timeline::categories
  bool pale = false;  // a lighter colour, to tell two kinds of one category apart
  std::string label;  // within the span, where there is room
  std::string title;  // what the reader is told under the pointer
};

struct TimelineRow {
  std::string name;
  std::string note;                 // after the row
  std::vector<TimelineSpan> spans;  // ascending, not overlapping
};

// Plain text throughout; any bytes are fine. Times are not negative.
struct Timeline {
  std::string title;
  std::string note;  // what the reader should take from it, after the title
  std::string time_name = "time";
  std::vector<TimelineCategory> categories;
  std::vector<TimelineRow> rows;
};

// A <figure class="timeline"> of a page (page.h has its style).
std::string timeline_figure(const Timeline& timeline);

// A whole SVG file with its own style, light or dark as the reader's system is.
std::string timeline_svg(const Timeline& timeline);

// A line for each row, below the title and its note, at most `width` columns wide. A span begins
// with its label, cut to its length; dots are time without a span.
std::string timeline_text(const Timeline& timeline, int width);

// Returns the CSS that timeline_figure and timeline_svg need besides the page's colours.
std::string_view timeline_style();

}  // namespace colossal::report
