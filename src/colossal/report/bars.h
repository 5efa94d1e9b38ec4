// Draws horizontal bars of stacked parts as an HTML figure, to compare a few things: ranks by their
// memory, axes by the bytes sent.
#pragma once

#include <string>
#include <vector>

namespace colossal::report {

struct Bar {
  std::string name;           // shown to the left of the bar
  std::vector<double> parts;  // by index in Bars::parts; not negative
  std::string text;           // shown to the right, such as the sum with its unit
};

// All strings are plain text.
struct Bars {
  std::string title;
  std::string note;                // explanation, shown after the title
  std::vector<std::string> parts;  // names for the legend, in the page's colors (page.h) in turn
  std::vector<Bar> bars;
};

// Returns the bars as HTML: a <figure class="bars"> for a page that html_page() (page.h) returns,
// which has the style. Parts that are 0 in all bars are left out of the
// legend; there is none if only one part is left. The longest bar
// takes the whole width.
std::string bars_figure(const Bars& bars);

}  // namespace colossal::report
