// Attributes of values: Python's methods of strings, lists and dicts that change nothing, and what
// `loop` has.
#pragma once

#include <optional>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

std::optional<Value> find_attribute(const Value& object, const std::string& name);

// "%s of %d" % values, with s, r, d, i, f, x and widths.
Value percent_format(Interpreter& interpreter, const Value& format, const Value& values);

}  // namespace colossal::text::jinja
