#include "colossal/text/jinja/expressions.h"

#include "colossal/text/jinja/operators.h"

namespace colossal::text::jinja {

Arguments CallArguments::evaluate(Interpreter& interpreter) const {
  Arguments arguments;
  for (const auto& value : positional) {
    arguments.positional.push_back(value->evaluate(interpreter));
  }
  for (const auto& [name, value] : named) {
    arguments.named.emplace_back(name, value->evaluate(interpreter));
  }
  if (more_positional) {
    const auto more = interpreter.iterate(more_positional->evaluate(interpreter));
    arguments.positional.insert(arguments.positional.end(), more->items.begin(), more->items.end());
  }
  if (more_named) {
    const Value more = more_named->evaluate(interpreter);
    if (!more.dict()) throw TemplateError("what follows ** in a call must be a dict");
    interpreter.charge_for(more);
    for (const auto& [name, value] : more.dict()->entries) {
      arguments.named.emplace_back(interpreter.text_of(name), value);
    }
  }
  return arguments;
}

Value ListLiteral::compute(Interpreter& interpreter) const {
  std::vector<Value> items;
  for (const auto& item : items_) items.push_back(item->evaluate(interpreter));
  return make_list(std::move(items), kind_);
}

Value DictLiteral::compute(Interpreter& interpreter) const {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, value] : entries_) {
    Value computed = key->evaluate(interpreter);
    interpreter.charge_for(computed, /*deep=*/true);
    entries.emplace_back(std::move(computed), value->evaluate(interpreter));
  }
  return make_dict(std::move(entries));
}

Value Attribute::compute(Interpreter& interpreter) const {
  const Value object = object_->evaluate(interpreter);
  // An attribute of these is a method, whose cost depends on the object.
  if (object.is_string() || object.list()) interpreter.charge_for(object);
  return get_attribute(object, name_);
}

Value Subscript::compute(Interpreter& interpreter) const {
  const Value object = object_->evaluate(interpreter);
  const Value index = index_->evaluate(interpreter);
  interpreter.charge_for(index, /*deep=*/true);
  return get_item(object, index);
}

std::optional<int64_t> Slice::bound(Interpreter& interpreter, size_t which) const {
  if (!bounds_[which]) return {};
  const Value value = bounds_[which]->evaluate(interpreter);
  if (value.is_none()) return {};
  if (!value.is_integer() && !value.is_boolean()) {
    throw TemplateError(fmt::format("a slice takes integers, not {}", value.type_name()));
  }
  return value.integer();
}

Value Slice::compute(Interpreter& interpreter) const {
  const Value object = object_->evaluate(interpreter);
  interpreter.charge_for(object);
  const auto begin = bound(interpreter, 0), end = bound(interpreter, 1);
  return get_slice(object, begin, end, bound(interpreter, 2));
}

Value Call::call(Interpreter& interpreter, std::optional<Value> caller) const {
  const Value callee = callee_->evaluate(interpreter);
  Arguments arguments = arguments_.evaluate(interpreter);
  if (caller) arguments.named.emplace_back("caller", *std::move(caller));
  return call_function(interpreter, callee, arguments);
}

Value FilterCall::compute(Interpreter& interpreter) const {
  const Value operand = operand_->evaluate(interpreter);
  interpreter.charge_for(operand);
  return filter_(interpreter, operand, arguments_.evaluate(interpreter));
}

Value TestCall::compute(Interpreter& interpreter) const {
  const Value operand = operand_->evaluate(interpreter);
  return run_test(interpreter, test_, operand, arguments_.evaluate(interpreter));
}

Value Arithmetic::compute(Interpreter& interpreter) const {
  const Value left = left_->evaluate(interpreter);
  return calculate(interpreter, kind_, left, right_->evaluate(interpreter));
}

Value Sign::compute(Interpreter& interpreter) const {
  const Value operand = operand_->evaluate(interpreter);
  if (!operand.is_number()) {
    throw TemplateError(fmt::format("a value of type {} has no sign", operand.type_name()));
  }
  if (operand.is_float()) return negative_ ? -operand.number() : operand.number();
  return negative_ ? calculate(interpreter, Operator::subtract, int64_t{0}, operand)
                   : Value(operand.integer());
}

Value Concatenation::compute(Interpreter& interpreter) const {
  std::string text;
  for (const auto& part : parts_) {
    interpreter.append(text, interpreter.text_of(part->evaluate(interpreter)));
  }
  return text;
}

Value Comparison::compute(Interpreter& interpreter) const {
  Value left = first_->evaluate(interpreter);
  for (const auto& [relation, operand] : rest_) {
    Value right = operand->evaluate(interpreter);
    const bool one_within = relation == Relation::in || relation == Relation::not_in;
    interpreter.charge_for(right, /*deep=*/!one_within || left.list() || left.dict());
    if (!holds(relation, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Conditional::compute(Interpreter& interpreter) const {
  if (condition_->evaluate(interpreter).truth()) return value_->evaluate(interpreter);
  if (otherwise_) return otherwise_->evaluate(interpreter);
  return Value::undefined("the value of an inline if without else");
}

}  // namespace colossal::text::jinja
