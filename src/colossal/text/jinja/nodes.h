// The nodes of a parsed template: expressions compute a value, statements write output.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {

class Node {
 public:
  explicit Node(int line) : line_(line) {}
  virtual ~Node() = default;
  int line() const { return line_; }

 private:
  int line_;
};

// evaluate() counts the node as a step of the interpreter. Throws TemplateError.
class Expression : public Node {
 public:
  using Node::Node;
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

class Statement : public Node {
 public:
  // What follows the statement: the next statement, or, of the innermost {% for %}, the next item
  // or the end.
  enum class Then { next, next_round, end_loop };
  using Node::Node;
  Then execute(Interpreter& interpreter) const {
    interpreter.enter(line());
    const Then then = run(interpreter);
    interpreter.leave();
    return then;
  }

 private:
  virtual Then run(Interpreter& interpreter) const = 0;
};
using Block = std::vector<std::unique_ptr<const Statement>>;

// The argument expressions of a call, before they are evaluated.
struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer more_positional, more_named;  // *list, **dict
  Arguments evaluate(Interpreter& interpreter) const;
};

// What {% set %} and {% for %} assign to: a tuple of targets if `parts` is not empty, else the
// namespace attribute name.attribute if `attribute` is not empty, else the variable `name`.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  void assign(Interpreter& interpreter, const Value& value) const;
};

}  // namespace colossal::text::jinja
