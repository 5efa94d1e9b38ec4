// Makes self-contained HTML pages, for the report of a run and for plans: style and script are
// inline, and the content security policy of a page forbids loading anything. Colors are light or
// dark, as the reader's system prefers.
#pragma once

#include <string>
#include <string_view>

namespace colossal::report {

// Returns a complete page with the styles and the script that the figures of chart.h, timeline.h
// and load_map.h need. title: plain text; this function escapes it. body: HTML of the page's
// content.
std::string html_page(std::string_view title, std::string_view body);

// Returns CSS that defines the page's colors as variables, light and dark, and the classes c1 to
// c7. Each class sets the variable --color to one of seven colors, which people with common kinds
// of color blindness can distinguish, too. html_page() includes this CSS; only a figure outside of
// a page, such as an SVG file, must include it itself.
std::string_view page_colors();

}  // namespace colossal::report
