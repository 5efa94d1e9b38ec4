// Defines what every template finds without being given it: range, dict, namespace,
// raise_exception, strftime_now.
#pragma once

#include <string>

#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

Value find_global(const std::string& name);  // undefined where there is none

}  // namespace colossal::text::jinja
