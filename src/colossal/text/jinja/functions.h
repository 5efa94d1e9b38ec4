// Defines the global functions of every template: range, dict, namespace, raise_exception,
// strftime_now.
#pragma once

#include <string>

#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

Value find_global(const std::string& name);  // undefined if no function has this name

}  // namespace colossal::text::jinja
