// Attributes of values: Python's non-mutating methods of strings, lists and dicts, and the
// attributes of `loop`.
#pragma once

#include <optional>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

// Returns the method or attribute of this name, bound to `object`; nullopt if there is none.
std::optional<Value> find_attribute(const Value& object, const std::string& name);

// Returns format % values as in Python ("%s of %d"), with the conversions s, r, d, i, f, x and
// field widths. Throws TemplateError for other conversions or values that do not match.
Value percent_format(Interpreter& interpreter, const Value& format, const Value& values);

}  // namespace colossal::text::jinja
