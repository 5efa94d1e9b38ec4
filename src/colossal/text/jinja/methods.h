// Attributes of values: Python's non-mutating methods of strings, lists and dicts, and the
// attributes of `loop`.
#pragma once

#include <optional>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

std::optional<Value> find_attribute(const Value& object, const std::string& name);

// Python's "%s of %d" % values, with the conversions s, r, d, i, f, x and field widths.
Value percent_format(Interpreter& interpreter, const Value& format, const Value& values);

}  // namespace colossal::text::jinja
