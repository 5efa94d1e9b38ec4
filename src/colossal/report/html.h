// Escapes untrusted text, e.g. samples and names of files, for HTML pages.
#pragma once

#include <string>
#include <string_view>

namespace colossal::report {

// Returns the text escaped for element contents and quoted attributes: the characters & < > " '
// become character references; invalid UTF-8 bytes, and ASCII control characters other than tab and
// line breaks, become U+FFFD.
std::string escape_html(std::string_view text);

// Returns the text with each invalid UTF-8 byte replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// Returns the JSON escaped for the contents of a <script> element: each < becomes \u003c, because
// "</script>" within a string would end the element.
std::string escape_json_for_script(std::string_view json);

}  // namespace colossal::report
