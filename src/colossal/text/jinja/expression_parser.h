// Parses expressions, with Jinja's operator precedence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/expressions.h"
#include "colossal/text/jinja/token_stream.h"

namespace colossal::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Parses a whole expression. conditional: accept "a if b else c"; if false, "if" ends the
  // expression.
  ExpressionPointer parse(bool conditional = true);
  // Like parse(), but commas form a tuple.
  ExpressionPointer parse_tuple(bool conditional = true);
  // Parses "(a, b=c)".
  CallArguments parse_arguments();
  // Parses filters after the first "|": name(...)|name
  ExpressionPointer parse_filters(ExpressionPointer operand);
  std::unique_ptr<const Call> parse_call();
  // end: the name that follows, e.g. "in"; a symbol also ends a target
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
