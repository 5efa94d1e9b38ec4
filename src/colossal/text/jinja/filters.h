// The filters (value|name) and tests (value is name) of Jinja that templates can use.
#pragma once

#include <string_view>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

// A filter returns the changed operand. A test returns whether the operand has a property.
using Filter = Value (*)(Interpreter&, const Value& operand, const Arguments&);
using Test = bool (*)(const Value& operand, const Arguments&);

// Return the filter or test of this name. Throw TemplateError if there is none.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
// Returns test(operand, arguments). Before that, adds the number of values that the test will read
// to the step count of the interpreter, which limits the work of a template.
bool run_test(Interpreter& interpreter, Test test, const Value& operand,
              const Arguments& arguments);

}  // namespace colossal::text::jinja
