// Parses expressions, with Jinja's operator precedence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/expressions.h"
#include "colossal/text/jinja/token_stream.h"

namespace colossal::text::jinja {

// All functions take tokens from the stream up to the end of what they parse, and throw
// TemplateError for a syntax error, an unknown filter or test, or an excessive size or depth.
class ExpressionParser {
 public:
  // tokens: must outlive the parser.
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Parses one expression. conditional: accept "a if b else c"; otherwise "if" ends the expression.
  ExpressionPointer parse(bool conditional = true);
  // Like parse(), but commas form a tuple.
  ExpressionPointer parse_tuple(bool conditional = true);
  // Parses "(a, b=c)".
  CallArguments parse_arguments();
  // Parses filters, name(...)|name, after the "|" that follows `operand`.
  ExpressionPointer parse_filters(ExpressionPointer operand);
  // Parses an expression that must be a call, for {% call %}.
  std::unique_ptr<const Call> parse_call();
  // Parses the targets of an assignment. end: the name that follows them, e.g. "in"; a symbol also
  // ends them.
  Target parse_target(std::string_view end);

 private:
  template <class T, class... Args>
  std::unique_ptr<const T> make(int line, Args&&... args);

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
  ExpressionPointer parse_chain(std::span<const OperatorSymbol> operators,
                                ExpressionPointer (ExpressionParser::*operand)());
  template <class Find>
  auto find_or_refuse(Find find, const std::string& name);

  TokenStream& tokens_;
  int depth_ = 0;
  int num_nodes_ = 0;
};

}  // namespace colossal::text::jinja
