// Jinja's filters (value|name) and tests (value is name).
#pragma once

#include <string_view>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

using Filter = Value (*)(Interpreter&, const Value& operand, const Arguments&);
using Test = bool (*)(const Value& operand, const Arguments&);

// Throw TemplateError if no filter or test has this name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
// Counts the values that the test reads as steps of `interpreter`, then runs the test.
bool run_test(Interpreter& interpreter, Test test, const Value& operand,
              const Arguments& arguments);

}  // namespace colossal::text::jinja
