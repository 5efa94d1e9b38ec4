// Computes operators, attributes and subscripts.
#pragma once

#include <optional>

#include "colossal/text/jinja/expressions.h"

namespace colossal::text::jinja {

Value calculate(Interpreter& interpreter, Operator kind, const Value& a, const Value& b);
bool holds(Relation relation, const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);

// object.name: a method or attribute, else an entry of this name; undefined where there is neither.
Value get_attribute(const Value& object, const std::string& name);
// object[index]: an entry or element, else an attribute of this name.
Value get_item(const Value& object, const Value& index);
Value get_slice(const Value& object, std::optional<int64_t> begin, std::optional<int64_t> end,
                std::optional<int64_t> step);

Value call_function(Interpreter& interpreter, const Value& callee, const Arguments& arguments);

}  // namespace colossal::text::jinja
