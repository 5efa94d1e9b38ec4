// A self-contained HTML page: style and script within, nothing is ever fetched (the page's own
// content security policy forbids it), light or dark as the reader's system is.
#pragma once

#include <string>
#include <string_view>

namespace colossal::report {

// `body`: HTML, already escaped. `title`: plain text.
std::string html_page(std::string_view title, std::string_view body);

// Returns the page's colours as CSS variables, light and dark, and the classes c1 to c7, which set
// --color to colours that tell series apart, also with the usual kinds of colour blindness.
std::string_view page_colors();

}  // namespace colossal::report
