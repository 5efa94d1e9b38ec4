// The global functions that every template can call: range, dict, namespace, raise_exception,
// strftime_now.
#pragma once

#include <string>

#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

// Returns the global function of this name; undefined if there is none.
Value find_global(const std::string& name);

}  // namespace colossal::text::jinja
