// Evaluates operators, attributes, subscripts and calls on values, as Python does. The expression
// nodes, and the filters and tests of templates, use these functions.
#pragma once

#include <optional>

#include "colossal/text/jinja/expressions.h"

namespace colossal::text::jinja {

// Returns `a OPERATOR b`. Throws TemplateError if Python does not define the operator for these
// types, if an integer does not fit 64 bits, for a division by zero, or at a limit of the
// interpreter.
Value calculate(Interpreter& interpreter, Operator kind, const Value& a, const Value& b);
// Returns `a RELATION b`. Throws TemplateError if Python does not define the relation for these
// types.
bool holds(Relation relation, const Value& a, const Value& b);
// Returns `item in container`. Throws TemplateError if Python does not define it for these types.
bool contains(const Value& container, const Value& item);

// Returns object.name: of a namespace, the variable; of other values, the method or attribute, else
// the entry of a dict with this key. Returns an undefined value if there is none. Throws
// TemplateError if `object` is undefined.
Value get_attribute(const Value& object, const std::string& name);
// Returns object[index]: the entry or element, else the attribute that the string `index` names;
// undefined if there is neither. Throws TemplateError if `object` is undefined.
Value get_item(const Value& object, const Value& index);
// Returns object[begin:end:step] of a string or list; nullopt: left out. Throws TemplateError for
// other types or a step of 0.
Value get_slice(const Value& object, std::optional<int64_t> begin, std::optional<int64_t> end,
                std::optional<int64_t> step);

// Calls a function. Throws TemplateError if `callee` is not a function.
Value call_function(Interpreter& interpreter, const Value& callee, const Arguments& arguments);

}  // namespace colossal::text::jinja
