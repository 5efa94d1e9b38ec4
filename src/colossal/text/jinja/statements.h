// The nodes of a parsed template for tags and for the text outside of tags. The parser creates
// them. Each constructor takes the line in the template, for error messages, and the parts of the
// tag.
#pragma once

#include "colossal/text/jinja/expressions.h"

namespace colossal::text::jinja {

// Text outside of tags.
class Text : public Statement {
 public:
  Text(int line, std::string text) : Statement(line), text_(std::move(text)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  std::string text_;
};

// {{ value }}
class Print : public Statement {
 public:
  Print(int line, ExpressionPointer value) : Statement(line), value_(std::move(value)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  ExpressionPointer value_;
};

// {% if %}...{% elif %}...{% else %}...{% endif %}
class If : public Statement {
 public:
  // Conditions and bodies in order. The condition of {% else %} is null.
  using Branches = std::vector<std::pair<ExpressionPointer, Block>>;
  If(int line, Branches branches) : Statement(line), branches_(std::move(branches)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  Branches branches_;
};

// {% for target in items if condition %}body{% else %}otherwise{% endfor %}
class For : public Statement {
 public:
  struct Parts {
    Target target;
    ExpressionPointer items, condition;  // condition: true for the items to use; null: all
    Block body, otherwise;               // otherwise: runs if there is no item to use
  };
  For(int line, Parts parts) : Statement(line), parts_(std::move(parts)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  // Returns the items for which the condition is true.
  std::shared_ptr<const List> chosen_items(Interpreter& interpreter) const;
  // Runs the body for the current item of `loop`. Returns false if the body ends the loop.
  bool run_round(Interpreter& interpreter, const std::shared_ptr<Loop>& loop) const;
  Parts parts_;
};

// {% set target = value %}
class Set : public Statement {
 public:
  Set(int line, Target target, ExpressionPointer value)
      : Statement(line), target_(std::move(target)), value_(std::move(value)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  Target target_;
  ExpressionPointer value_;
};

// The text that a block of statements writes, as a value.
// Used for {% set target %}body{% endset %} and {% filter name %}body{% endfilter %}.
class BlockOutput : public Expression {
 public:
  BlockOutput(int line, Block body) : Expression(line), body_(std::move(body)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  Block body_;
};

// {% with target = value, ... %}body{% endwith %}
class With : public Statement {
 public:
  using Variables = std::vector<std::pair<Target, ExpressionPointer>>;
  With(int line, Variables variables, Block body)
      : Statement(line), variables_(std::move(variables)), body_(std::move(body)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  Variables variables_;
  Block body_;
};

// What {% macro name(parameters) %} or {% call(parameters) %} defines.
struct MacroDefinition {
  std::string name;
  // Names and default values. A null default: the parameter is undefined unless given.
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;
  Block body;
  // Returns the macro as a function that sees the variables of the interpreter's current scope. The
  // definition must outlive the function.
  Value make_value(Interpreter& interpreter) const;

 private:
  // Returns what the body writes.
  Value call(Interpreter& interpreter, const Arguments& arguments,
             const std::shared_ptr<Scope>& scope) const;
  // Sets the parameters, `varargs`, `kwargs` and `caller` in the current scope.
  void bind(Interpreter& interpreter, const Arguments& arguments) const;
};

// {% macro name(parameters) %}body{% endmacro %}: sets the variable `name` to the macro.
class Macro : public Statement {
 public:
  Macro(int line, MacroDefinition definition)
      : Statement(line), definition_(std::move(definition)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  MacroDefinition definition_;
};

// {% call(parameters) macro(arguments) %}body{% endcall %}: calls the macro, which can call the
// body as `caller`, and writes the macro's result.
class CallBlock : public Statement {
 public:
  CallBlock(int line, std::unique_ptr<const Call> call, MacroDefinition caller)
      : Statement(line), call_(std::move(call)), caller_(std::move(caller)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  std::unique_ptr<const Call> call_;
  MacroDefinition caller_;
};

// {% generation %}body{% endgeneration %}: marks text of the assistant, on which a model is
// trained.
class Generation : public Statement {
 public:
  Generation(int line, Block body) : Statement(line), body_(std::move(body)) {}

 private:
  Flow run(Interpreter& interpreter) const override;
  Block body_;
};

// {% break %} or {% continue %}
class LoopControl : public Statement {
 public:
  LoopControl(int line, Flow then) : Statement(line), then_(then) {}

 private:
  Flow run(Interpreter&) const override { return then_; }
  Flow then_;
};

// Executes the statements in order until one returns something else than Flow::next. Returns what
// that statement returned; Flow::next if there was none.
Statement::Flow execute(const Block& block, Interpreter& interpreter);

}  // namespace colossal::text::jinja
