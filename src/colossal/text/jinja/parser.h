// Parses a template.
#pragma once

#include <string_view>

#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

// Returns the statements of a template. Throws TemplateError for a syntax error, an unsupported
// feature (naming it), or an excessive size.
Block parse(std::string_view source);

}  // namespace colossal::text::jinja
