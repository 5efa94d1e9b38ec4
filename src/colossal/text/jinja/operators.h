// Evaluates operators, attributes and subscripts.
#pragma once

#include <optional>

#include "colossal/text/jinja/expressions.h"

namespace colossal::text::jinja {

// Evaluate `a OPERATOR b`, `a RELATION b` and `item in container`. Throw TemplateError if Python
// does not define the operation for the types of the operands.
Value calculate(Interpreter& interpreter, Operator kind, const Value& a, const Value& b);
bool holds(Relation relation, const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);

// Returns object.name: a method or attribute, else the entry with this key; undefined if neither
// exists.
Value get_attribute(const Value& object, const std::string& name);
// Returns object[index]: an entry or element, else the attribute that `index` names; undefined if
// neither exists.
Value get_item(const Value& object, const Value& index);
Value get_slice(const Value& object, std::optional<int64_t> begin, std::optional<int64_t> end,
                std::optional<int64_t> step);

Value call_function(Interpreter& interpreter, const Value& callee, const Arguments& arguments);

}  // namespace colossal::text::jinja
