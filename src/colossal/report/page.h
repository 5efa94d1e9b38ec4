// A self-contained HTML page: style and script are inline, and the page's content security policy
// forbids fetching anything. Light or dark, depending on the reader's system.
#pragma once

#include <string>
#include <string_view>

namespace colossal::report {

// Returns the page. title: plain text. body: HTML, already escaped.
std::string html_page(std::string_view title, std::string_view body);

// Returns the page's colors as CSS variables, light and dark, and the classes c1 to c7, which set
// --color to colors that are distinguishable also with common kinds of color blindness.
std::string_view page_colors();

}  // namespace colossal::report
