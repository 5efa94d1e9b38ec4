// A self-contained HTML page: style and script are inline, and the page's content security policy
// forbids fetching anything. The page is light or dark, as the reader's system is.
#pragma once

#include <string>
#include <string_view>

namespace colossal::report {

// Returns the page. title: plain text. body: HTML, already escaped.
std::string html_page(std::string_view title, std::string_view body);

// Returns CSS: the page's colors as variables, light and dark, and the classes c1 to c7. Each class
// sets --color to a color that is distinguishable from the others also with common kinds of color
// blindness.
std::string_view page_colors();

}  // namespace colossal::report
