#include <map>

#include "colossal/text/jinja/arguments.h"
#include "colossal/text/jinja/filters.h"
#include "colossal/text/jinja/operators.h"
#include "colossal/text/jinja/python_text.h"

namespace colossal::text::jinja {
namespace {

const Value& other_of(const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("the test needs a value to compare with");
  return arguments.positional[0];
}

template <Relation relation>
bool stands(const Value& value, const Arguments& arguments) {
  return holds(relation, value, other_of(arguments));
}

bool is_sequence(const Value& value, const Arguments&) {
  const List* list = value.list();
  return value.is_string() || value.dict() || value.is_undefined() ||
         (list && list->kind != List::Kind::generator);
}

bool is_iterable(const Value& value, const Arguments&) {
  return value.is_string() || value.dict() || value.list() || value.is_undefined();
}

int64_t remainder(const Value& value, int64_t divisor) {
  if (!value.is_number() || value.is_float()) {
    throw TemplateError("odd, even and divisibleby are tests of integers");
  }
  if (divisor == 0) throw TemplateError("division by zero");
  return divisor == -1 ? 0 : value.integer() % divisor;
}

bool is_upper(const Value& value, const Arguments&) {
  return has_case(value.str(), true);
}

bool is_lower(const Value& value, const Arguments&) {
  return has_case(value.str(), false);
}

bool is_same(const Value& value, const Arguments& arguments) {
  const Value& other = other_of(arguments);
  return value.type_name() == other.type_name() && equal(value, other);
}

}  // namespace

bool run_test(Interpreter& interpreter, Test test, const Value& operand,
              const Arguments& arguments) {
  interpreter.charge_for(arguments, /*deep=*/true);
  if (test == is_upper || test == is_lower) interpreter.charge_for(operand, /*deep=*/true);
  return test(operand, arguments);
}

Test find_test(std::string_view name) {
  static const std::map<std::string_view, Test> tests{
      {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
      {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
      {"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
      {"boolean", [](const Value& v, const Arguments&) { return v.is_boolean(); }},
      {"true", [](const Value& v, const Arguments&) { return v.is_boolean() && v.truth(); }},
      {"false", [](const Value& v, const Arguments&) { return v.is_boolean() && !v.truth(); }},
      {"integer", [](const Value& v, const Arguments&) { return v.is_integer(); }},
      {"float", [](const Value& v, const Arguments&) { return v.is_float(); }},
      {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
      {"string", [](const Value& v, const Arguments&) { return v.is_string(); }},
      {"mapping", [](const Value& v, const Arguments&) { return v.dict() != nullptr; }},
      {"sequence", is_sequence},
      {"iterable", is_iterable},
      {"callable", [](const Value& v, const Arguments&) { return v.function() != nullptr; }},
      {"sameas", is_same},
      {"in", [](const Value& v, const Arguments& a) { return contains(other_of(a), v); }},
      {"odd", [](const Value& v, const Arguments&) { return remainder(v, 2) != 0; }},
      {"even", [](const Value& v, const Arguments&) { return remainder(v, 2) == 0; }},
      {"divisibleby",
       [](const Value& v, const Arguments& a) {
         return remainder(v, ArgumentReader("divisibleby", a, {"num"}, 1).integer(0, 1)) == 0;
       }},
      {"upper", is_upper},
      {"lower", is_lower},
      {"eq", stands<Relation::equal>},
      {"equalto", stands<Relation::equal>},
      {"==", stands<Relation::equal>},
      {"ne", stands<Relation::not_equal>},
      {"!=", stands<Relation::not_equal>},
      {"lt", stands<Relation::less>},
      {"lessthan", stands<Relation::less>},
      {"<", stands<Relation::less>},
      {"le", stands<Relation::less_or_equal>},
      {"<=", stands<Relation::less_or_equal>},
      {"gt", stands<Relation::greater>},
      {"greaterthan", stands<Relation::greater>},
      {">", stands<Relation::greater>},
      {"ge", stands<Relation::greater_or_equal>},
      {">=", stands<Relation::greater_or_equal>},
  };
  const auto found = tests.find(name);
  if (found == tests.end()) throw TemplateError(fmt::format("there is no test '{}'", name));
  return found->second;
}

}  // namespace colossal::text::jinja
