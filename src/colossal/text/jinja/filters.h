// Filters (value|name) and tests (value is name), as Jinja has them.
#pragma once

#include <string_view>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

using Filter = Value (*)(Interpreter&, const Value& operand, const Arguments&);
using Test = bool (*)(const Value& operand, const Arguments&);

// Throw TemplateError for a name that there is none of.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
// Charges what a test goes through.
bool run_test(Interpreter& interpreter, Test test, const Value& operand,
              const Arguments& arguments);

}  // namespace colossal::text::jinja
