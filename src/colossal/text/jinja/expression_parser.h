// Parses the expressions within {{ }} and {% %} of a template, with Jinja's operator precedence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/expressions.h"
#include "colossal/text/jinja/token_stream.h"

namespace colossal::text::jinja {

// Recursive-descent parser. Each function takes the tokens of what it parses from the stream and
// leaves the following token as the current one. All throw TemplateError for a syntax error, an
// unknown filter or test, or an expression that is too long or nested too deeply.
class ExpressionParser {
 public:
  // tokens: must outlive the parser.
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Parses one expression. conditional: accept "a if b else c"; otherwise "if" ends the expression.
  ExpressionPointer parse(bool conditional = true);
  // Like parse(), but "a, b" is a tuple.
  ExpressionPointer parse_tuple(bool conditional = true);
  // Parses the parenthesized arguments of a call: "(a, b=c)".
  CallArguments parse_arguments();
  // Parses any number of filters "|name" or "|name(...)" and returns `operand` with the filters
  // applied.
  ExpressionPointer parse_filters(ExpressionPointer operand);
  // Parses an expression that must be a call of a name or an attribute, for {% call %}.
  std::unique_ptr<const Call> parse_call();
  // Parses what {% set %}, {% for %} or {% with %} assigns to: one target, or several with commas,
  // which form a tuple. A target is a name, an attribute of a name, or targets in parentheses. The
  // targets end where no comma follows, or where `end` follows a comma. end: the name or symbol
  // after the targets, such as "in" or "=".
  Target parse_target(std::string_view end);

 private:
  // Creates a node. Throws TemplateError if the expression has too many nodes.
  template <class T, class... Args>
  std::unique_ptr<const T> make(int line, Args&&... args);

  // The functions from parse_conditional() to parse_power() each parse one level of precedence,
  // lowest first. parse_unary() parses the next level: a primary expression with its attributes,
  // subscripts and calls, or a sign and its operand; then filters and tests, if `with_filters`.
  // parse_nested() is parse_unary(true), in the form that parse_chain() takes.
  ExpressionPointer parse_nested();
  ExpressionPointer parse_conditional();
  ExpressionPointer parse_or();
  ExpressionPointer parse_and();
  ExpressionPointer parse_not();
  ExpressionPointer parse_comparison();
  ExpressionPointer parse_sum();
  ExpressionPointer parse_concatenation();
  ExpressionPointer parse_product();
  ExpressionPointer parse_power();
  ExpressionPointer parse_unary(bool with_filters);
  ExpressionPointer parse_primary();
  ExpressionPointer parse_name();
  ExpressionPointer parse_number();
  ExpressionPointer parse_strings();
  ExpressionPointer parse_list();
  ExpressionPointer parse_dict();
  ExpressionPointer parse_brackets();
  ExpressionPointer parse_postfix(ExpressionPointer operand);
  ExpressionPointer parse_filters_and_tests(ExpressionPointer operand);
  ExpressionPointer parse_attribute(ExpressionPointer object);
  ExpressionPointer parse_subscript(ExpressionPointer object);
  ExpressionPointer parse_test(ExpressionPointer operand);
  ExpressionPointer parse_filter(ExpressionPointer operand);
  CallArguments parse_test_arguments();
  ExpressionPointer parse_call_of(ExpressionPointer callee);
  bool at_end_of_tuple() const;
  struct OperatorSymbol {
    std::string_view symbol;
    Operator kind;
  };
  // Parses one or more operands, each with the function `operand`, as long as one of `operators`
  // stands between them. Groups from the left: a - b + c is (a - b) + c.
  ExpressionPointer parse_chain(std::span<const OperatorSymbol> operators,
                                ExpressionPointer (ExpressionParser::*operand)());
  // Returns find(name); adds the current line to the message of a TemplateError.
  template <class Find>
  auto find_or_refuse(Find find, const std::string& name);

  TokenStream& tokens_;
  int depth_ = 0;      // nesting of the current expression
  int num_nodes_ = 0;  // nodes of the current expression so far
};

}  // namespace colossal::text::jinja
