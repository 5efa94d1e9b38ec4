// The base classes of the nodes of a parsed template: an Expression computes a value, a Statement
// writes output or sets variables.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

// Base class of all nodes. line: where the node begins in the template, for error messages.
class Node {
 public:
  explicit Node(int line) : line_(line) {}
  virtual ~Node() = default;
  int line() const { return line_; }

 private:
  int line_;
};

// Computes a value.
class Expression : public Node {
 public:
  using Node::Node;
  // Returns the value of the expression. Counts the node as a step of the interpreter. Throws
  // TemplateError if the template uses a value wrongly, or exceeds a limit of the interpreter.
  Value evaluate(Interpreter& interpreter) const {
    interpreter.enter(line());
    Value value = compute(interpreter);
    interpreter.leave();
    return value;
  }

 private:
  virtual Value compute(Interpreter& interpreter) const = 0;
};
using ExpressionPointer = std::unique_ptr<const Expression>;

// Any part of a template that is executed: text, {{ }}, or a tag.
class Statement : public Node {
 public:
  // What is executed after a statement.
  enum class Flow {
    next,        // the next statement
    next_round,  // after {% continue %}: the body of the innermost {% for %}, for its next item
    end_loop     // after {% break %}: the statement after the innermost {% for %}
  };
  using Node::Node;
  // Executes the statement. Counts the node as a step of the interpreter. Throws TemplateError if
  // the template uses a value wrongly, or exceeds a limit of the interpreter.
  Flow execute(Interpreter& interpreter) const {
    interpreter.enter(line());
    const Flow then = run(interpreter);
    interpreter.leave();
    return then;
  }

 private:
  virtual Flow run(Interpreter& interpreter) const = 0;
};
// The statements of a template or between two tags, in order.
using Block = std::vector<std::unique_ptr<const Statement>>;

// The argument expressions of a call, before they are evaluated.
struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;  // name=value
  ExpressionPointer more_positional, more_named;                 // *list, **dict; null: none
  // Evaluates the expressions; appends the elements of *list and the entries of **dict. Throws
  // TemplateError if an expression does, if `*` is not followed by something that {% for %} can
  // iterate over, or if `**` is not followed by a dict.
  Arguments evaluate(Interpreter& interpreter) const;
};

// What {% set %}, {% for %} and {% with %} assign to. If `parts` is not empty: several targets, to
// which the elements of the value are assigned. Else, if `attribute` is not empty: the attribute of
// the namespace `name`. Else: the variable `name`.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  // Assigns `value`. Throws TemplateError if there are parts and `value` does not have as many
  // elements; or if there is an attribute and `name` is not a namespace, or the attribute begins
  // with an underscore.
  void assign(Interpreter& interpreter, const Value& value) const;
};

}  // namespace colossal::text::jinja
