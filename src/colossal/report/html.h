// Escapes untrusted text for HTML.
#pragma once

#include <string>
#include <string_view>

namespace colossal::report {

// Escapes text for element contents and quoted attributes: & < > " ' become character references;
// invalid UTF-8 bytes and control characters that HTML forbids become U+FFFD.
std::string escape_html(std::string_view text);

// Returns the text with each invalid UTF-8 byte replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// Escapes JSON for a <script> element, by replacing each <, which could end the element.
std::string escape_json_for_script(std::string_view json);

}  // namespace colossal::report
