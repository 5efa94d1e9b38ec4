// The expression nodes of a parsed template.
#pragma once

#include <optional>

#include "colossal/text/jinja/filters.h"
#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

class Constant : public Expression {
 public:
  Constant(int line, Value value) : Expression(line), value_(std::move(value)) {}

 private:
  Value compute(Interpreter&) const override { return value_; }
  Value value_;
};

class Name : public Expression {
 public:
  Name(int line, std::string name) : Expression(line), name_(std::move(name)) {}

 private:
  Value compute(Interpreter& interpreter) const override { return interpreter.find(name_); }
  std::string name_;
};

class ListLiteral : public Expression {
 public:
  ListLiteral(int line, std::vector<ExpressionPointer> items, List::Kind kind)
      : Expression(line), items_(std::move(items)), kind_(kind) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  std::vector<ExpressionPointer> items_;
  List::Kind kind_;
};

class DictLiteral : public Expression {
 public:
  using Entries = std::vector<std::pair<ExpressionPointer, ExpressionPointer>>;
  DictLiteral(int line, Entries entries) : Expression(line), entries_(std::move(entries)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  Entries entries_;
};

class Attribute : public Expression {  // object.name
 public:
  Attribute(int line, ExpressionPointer object, std::string name)
      : Expression(line), object_(std::move(object)), name_(std::move(name)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer object_;
  std::string name_;
};

class Subscript : public Expression {  // object[index]
 public:
  Subscript(int line, ExpressionPointer object, ExpressionPointer index)
      : Expression(line), object_(std::move(object)), index_(std::move(index)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer object_, index_;
};

class Slice : public Expression {  // object[begin:end:step]; each bound may be missing
 public:
  Slice(int line, ExpressionPointer object, std::vector<ExpressionPointer> bounds)
      : Expression(line), object_(std::move(object)), bounds_(std::move(bounds)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  std::optional<int64_t> bound(Interpreter& interpreter, size_t which) const;
  ExpressionPointer object_;
  std::vector<ExpressionPointer> bounds_;
};

class Call : public Expression {
 public:
  Call(int line, ExpressionPointer callee, CallArguments arguments)
      : Expression(line), callee_(std::move(callee)), arguments_(std::move(arguments)) {}
  // caller: the function `caller` that {% call %} passes to the callee; nullopt for other calls.
  Value call(Interpreter& interpreter, std::optional<Value> caller) const;

 private:
  Value compute(Interpreter& interpreter) const override { return call(interpreter, {}); }
  ExpressionPointer callee_;
  CallArguments arguments_;
};

class FilterCall : public Expression {  // operand|filter(...)
 public:
  FilterCall(int line, ExpressionPointer operand, Filter filter, CallArguments arguments)
      : Expression(line),
        operand_(std::move(operand)),
        filter_(filter),
        arguments_(std::move(arguments)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer operand_;
  Filter filter_;
  CallArguments arguments_;
};

class TestCall : public Expression {  // operand is [not] test(...)
 public:
  TestCall(int line, ExpressionPointer operand, Test test, CallArguments arguments)
      : Expression(line),
        operand_(std::move(operand)),
        test_(test),
        arguments_(std::move(arguments)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer operand_;
  Test test_;
  CallArguments arguments_;
};

enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };

class Arithmetic : public Expression {
 public:
  Arithmetic(int line, Operator kind, ExpressionPointer left, ExpressionPointer right)
      : Expression(line), kind_(kind), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  Operator kind_;
  ExpressionPointer left_, right_;
};

class Sign : public Expression {  // -operand, +operand
 public:
  Sign(int line, bool negative, ExpressionPointer operand)
      : Expression(line), negative_(negative), operand_(std::move(operand)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  bool negative_;
  ExpressionPointer operand_;
};

class Concatenation : public Expression {  // a ~ b ~ c
 public:
  Concatenation(int line, std::vector<ExpressionPointer> parts)
      : Expression(line), parts_(std::move(parts)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  std::vector<ExpressionPointer> parts_;
};

enum class Relation {
  equal,
  not_equal,
  less,
  less_or_equal,
  greater,
  greater_or_equal,
  in,
  not_in
};

class Comparison : public Expression {  // a < b <= c
 public:
  using Rest = std::vector<std::pair<Relation, ExpressionPointer>>;
  Comparison(int line, ExpressionPointer first, Rest rest)
      : Expression(line), first_(std::move(first)), rest_(std::move(rest)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer first_;
  Rest rest_;
};

class Not : public Expression {
 public:
  Not(int line, ExpressionPointer operand) : Expression(line), operand_(std::move(operand)) {}

 private:
  Value compute(Interpreter& interpreter) const override {
    return !operand_->evaluate(interpreter).truth();
  }
  ExpressionPointer operand_;
};

class AndOr : public Expression {
 public:
  AndOr(int line, bool is_and, ExpressionPointer left, ExpressionPointer right)
      : Expression(line), is_and_(is_and), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value compute(Interpreter& interpreter) const override {
    Value left = left_->evaluate(interpreter);
    return left.truth() == is_and_ ? right_->evaluate(interpreter) : left;
  }
  bool is_and_;
  ExpressionPointer left_, right_;
};

class Conditional : public Expression {  // value if condition else otherwise
 public:
  Conditional(int line, ExpressionPointer value, ExpressionPointer condition,
              ExpressionPointer otherwise)
      : Expression(line),
        value_(std::move(value)),
        condition_(std::move(condition)),
        otherwise_(std::move(otherwise)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer value_, condition_, otherwise_;
};

}  // namespace colossal::text::jinja
