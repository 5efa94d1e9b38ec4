// Reads a template.
#pragma once

#include <string_view>

#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

// Throws TemplateError: a mistake, something that is not supported (naming it), an absurd size.
Block parse(std::string_view source);

}  // namespace colossal::text::jinja
