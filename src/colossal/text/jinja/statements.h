// The statement nodes of a parsed template.
#pragma once

#include "colossal/text/jinja/expressions.h"

namespace colossal::text::jinja {

class Text : public Statement {
 public:
  Text(int line, std::string text) : Statement(line), text_(std::move(text)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  std::string text_;
};

class Print : public Statement {  // {{ value }}
 public:
  Print(int line, ExpressionPointer value) : Statement(line), value_(std::move(value)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  ExpressionPointer value_;
};

class If : public Statement {
 public:
  // Conditions and bodies in order; {% else %} has a null condition.
  using Branches = std::vector<std::pair<ExpressionPointer, Block>>;
  If(int line, Branches branches) : Statement(line), branches_(std::move(branches)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  Branches branches_;
};

class For : public Statement {
 public:
  struct Parts {
    Target target;
    ExpressionPointer items, condition;  // condition: selects items; null: all
    Block body, otherwise;               // otherwise: runs if no item was selected
  };
  For(int line, Parts parts) : Statement(line), parts_(std::move(parts)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  std::shared_ptr<const List> chosen_items(Interpreter& interpreter) const;
  // Runs the body for the current item of `loop`; returns false if the body ends the loop.
  bool run_round(Interpreter& interpreter, const std::shared_ptr<Loop>& loop) const;
  Parts parts_;
};

class Set : public Statement {
 public:
  Set(int line, Target target, ExpressionPointer value)
      : Statement(line), target_(std::move(target)), value_(std::move(value)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  Target target_;
  ExpressionPointer value_;
};

// An expression whose value is the output of a block of statements ({% set x %}...{% endset %}).
class BlockOutput : public Expression {
 public:
  BlockOutput(int line, Block body) : Expression(line), body_(std::move(body)) {}

 private:
  Value compute(Interpreter& interpreter) const override;
  Block body_;
};

class With : public Statement {
 public:
  using Variables = std::vector<std::pair<Target, ExpressionPointer>>;
  With(int line, Variables variables, Block body)
      : Statement(line), variables_(std::move(variables)), body_(std::move(body)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  Variables variables_;
  Block body_;
};

struct MacroDefinition {
  std::string name;
  // Names and default values; null: no default.
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;
  Block body;
  // Returns the macro as a function that sees the variables of the scope that is current now. The
  // definition must outlive the function.
  Value make_value(Interpreter& interpreter) const;

 private:
  Value call(Interpreter& interpreter, const Arguments& arguments,
             const std::shared_ptr<Scope>& scope) const;
  void bind(Interpreter& interpreter, const Arguments& arguments) const;
};

class Macro : public Statement {
 public:
  Macro(int line, MacroDefinition definition)
      : Statement(line), definition_(std::move(definition)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  MacroDefinition definition_;
};

class CallBlock : public Statement {  // {% call macro() %}body of caller(){% endcall %}
 public:
  CallBlock(int line, std::unique_ptr<const Call> call, MacroDefinition caller)
      : Statement(line), call_(std::move(call)), caller_(std::move(caller)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  std::unique_ptr<const Call> call_;
  MacroDefinition caller_;
};

// {% generation %}...{% endgeneration %}: marks the assistant's text, on which a model is trained.
class Generation : public Statement {
 public:
  Generation(int line, Block body) : Statement(line), body_(std::move(body)) {}

 private:
  Then run(Interpreter& interpreter) const override;
  Block body_;
};

class LoopControl : public Statement {  // {% break %}, {% continue %}
 public:
  LoopControl(int line, Then then) : Statement(line), then_(then) {}

 private:
  Then run(Interpreter&) const override { return then_; }
  Then then_;
};

// Executes the statements in order, up to one that does not continue with the next.
Statement::Then execute(const Block& block, Interpreter& interpreter);

}  // namespace colossal::text::jinja
