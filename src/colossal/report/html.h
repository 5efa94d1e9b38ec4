// Text that comes from outside, made fit for a page.
#pragma once

#include <string>
#include <string_view>

namespace colossal::report {

// Escapes a text for element contents and quoted attributes: & < > " ' become references; bytes
// that are not UTF-8 and control characters that HTML forbids become U+FFFD.
std::string escape_html(std::string_view text);

// Valid UTF-8 of the same text: each byte that belongs to no character becomes U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// JSON for a <script> element: no < is left that could end it.
std::string escape_json_for_script(std::string_view json);

}  // namespace colossal::report
