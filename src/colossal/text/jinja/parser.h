// Parses a template into nodes.
#pragma once

#include <string_view>

#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

// Returns the statements of a template. Throws TemplateError for a syntax error, an unsupported tag
// (naming it), or a template that is longer than 1 MiB or nested too deeply.
Block parse(std::string_view source);

}  // namespace colossal::text::jinja
