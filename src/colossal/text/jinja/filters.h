// The filters (value|name) and tests (value is name) of Jinja that templates can use.
#pragma once

#include <string_view>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

// A filter returns a value that it computes from the operand. A test returns whether the operand
// has a property. Both throw TemplateError for an operand or arguments that they do not accept.
using Filter = Value (*)(Interpreter&, const Value& operand, const Arguments&);
using Test = bool (*)(const Value& operand, const Arguments&);

// Return the filter or test of this name. Throw TemplateError if there is none.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
// Returns test(operand, arguments). First adds the size of the values that the test will iterate
// over to the interpreter's count of steps (Interpreter::charge_for()). Throws TemplateError if the
// count exceeds the interpreter's limit.
bool run_test(Interpreter& interpreter, Test test, const Value& operand,
              const Arguments& arguments);

}  // namespace colossal::text::jinja
