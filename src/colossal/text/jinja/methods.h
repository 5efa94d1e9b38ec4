// Methods and attributes of values: Python's non-mutating methods of strings, lists and dicts, and
// the attributes of the variable `loop`.
#pragma once

#include <optional>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

// Returns the attribute `name` of `object`; a method is returned as a function that is bound to
// `object`. Returns nullopt if there is no such attribute. Does not look at the entries of dicts
// and namespaces; get_attribute() of operators.h does.
std::optional<Value> find_attribute(const Value& object, const std::string& name);

// Returns format % values as in Python ("%s of %d"). format: a string. values: one value, or a
// tuple. Supports the conversions s, r, d, i, f, x, field widths and precisions. Throws
// TemplateError for other conversions, for values that do not match, or if the interpreter reaches
// one of its limits of steps and bytes.
Value percent_format(Interpreter& interpreter, const Value& format, const Value& values);

}  // namespace colossal::text::jinja
