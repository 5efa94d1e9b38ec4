// The expression nodes of a parsed template. ExpressionParser creates them. Each class computes one
// kind of expression; its constructor takes the template's line, for error messages, and the parts.
#pragma once

#include <optional>

#include "colossal/text/jinja/filters.h"
#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

// A literal number, string, boolean or None.
class Constant : public Expression {
 public:
  Constant(int line, Value value) : Expression(line), value_(std::move(value)) {}

 private:
  Value compute(Interpreter&) const override { return value_; }
  Value value_;
};

// A variable or global function by its name.
class Name : public Expression {
 public:
  Name(int line, std::string name) : Expression(line), name_(std::move(name)) {}

 private:
  Value compute(Interpreter& interpreter) const override { return interpreter.find(name_); }
  std::string name_;
};

// [a, b] or, with List::Kind::tuple, (a, b).
class ListLiteral : public Expression {
 public:
  ListLiteral(int line, std::vector<ExpressionPointer> items, List::Kind kind)
      : Expression(line), items_(std::move(items)), kind_(kind) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  std::vector<ExpressionPointer> items_;
  List::Kind kind_;
};

// {key: value, ...}
class DictLiteral : public Expression {
 public:
  using Entries = std::vector<std::pair<ExpressionPointer, ExpressionPointer>>;
  DictLiteral(int line, Entries entries) : Expression(line), entries_(std::move(entries)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  Entries entries_;
};

// object.name
class Attribute : public Expression {
 public:
  Attribute(int line, ExpressionPointer object, std::string name)
      : Expression(line), object_(std::move(object)), name_(std::move(name)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer object_;
  std::string name_;
};

// object[index]
class Subscript : public Expression {
 public:
  Subscript(int line, ExpressionPointer object, ExpressionPointer index)
      : Expression(line), object_(std::move(object)), index_(std::move(index)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer object_, index_;
};

// object[begin:end:step]. bounds: these three expressions in this order; null: left out.
class Slice : public Expression {
 public:
  Slice(int line, ExpressionPointer object, std::vector<ExpressionPointer> bounds)
      : Expression(line), object_(std::move(object)), bounds_(std::move(bounds)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  // Returns bounds_[which]; nullopt if it is left out or None.
  std::optional<int64_t> bound(Interpreter& interpreter, size_t which) const;
  ExpressionPointer object_;
  std::vector<ExpressionPointer> bounds_;
};

// callee(arguments)
class Call : public Expression {
 public:
  Call(int line, ExpressionPointer callee, CallArguments arguments)
      : Expression(line), callee_(std::move(callee)), arguments_(std::move(arguments)) {}
  // Calls the callee. caller: the function that {% call %} passes to the callee as the argument
  // `caller`; nullopt for other calls.
  Value call(Interpreter& interpreter, std::optional<Value> caller) const;

 private:
  Value compute(Interpreter& interpreter) const override { return call(interpreter, {}); }
  ExpressionPointer callee_;
  CallArguments arguments_;
};

// operand|filter(arguments)
class FilterCall : public Expression {
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

// operand is test(arguments). ("is not" is a Not of a TestCall.)
class TestCall : public Expression {
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

// Binary operators of arithmetic: + - * / // % **.
enum class Operator { add, subtract, multiply, divide, floor_divide, modulo, power };

// left OPERATOR right
class Arithmetic : public Expression {
 public:
  Arithmetic(int line, Operator kind, ExpressionPointer left, ExpressionPointer right)
      : Expression(line), kind_(kind), left_(std::move(left)), right_(std::move(right)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  Operator kind_;
  ExpressionPointer left_, right_;
};

// -operand, or +operand if not `negative`.
class Sign : public Expression {
 public:
  Sign(int line, bool negative, ExpressionPointer operand)
      : Expression(line), negative_(negative), operand_(std::move(operand)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  bool negative_;
  ExpressionPointer operand_;
};

// a ~ b ~ c: the texts of the parts, joined.
class Concatenation : public Expression {
 public:
  Concatenation(int line, std::vector<ExpressionPointer> parts)
      : Expression(line), parts_(std::move(parts)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  std::vector<ExpressionPointer> parts_;
};

// Operators of a comparison: == != < <= > >= in, not in.
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

// first RELATION operand RELATION operand ..., as in a < b <= c. True if all relations hold between
// neighbors.
class Comparison : public Expression {
 public:
  using Rest = std::vector<std::pair<Relation, ExpressionPointer>>;  // what follows `first`
  Comparison(int line, ExpressionPointer first, Rest rest)
      : Expression(line), first_(std::move(first)), rest_(std::move(rest)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  ExpressionPointer first_;
  Rest rest_;
};

// not operand
class Not : public Expression {
 public:
  Not(int line, ExpressionPointer operand) : Expression(line), operand_(std::move(operand)) {}

 private:
  Value compute(Interpreter& interpreter) const override {
    return !operand_->evaluate(interpreter).truth();
  }
  ExpressionPointer operand_;
};

// If `is_and`: `left and right`; else `left or right`. Evaluates `right` only if needed.
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

// value if condition else otherwise. `otherwise` may be null: undefined.
class Conditional : public Expression {
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
