#include "colossal/text/jinja/expression_parser.h"

#include <array>
#include <charconv>

namespace colossal::text::jinja {
namespace {

using Kind = Token::Kind;

// Nodes destroy their children recursively. This many nested nodes fit a thread's stack.
constexpr int kMaxNodes = 20'000;
constexpr int kMaxNesting = 100;

struct RelationSymbol {
  std::string_view symbol;
  Relation relation;
};
constexpr std::array<RelationSymbol, 6> kRelations{{{"==", Relation::equal},
                                                    {"!=", Relation::not_equal},
                                                    {"<", Relation::less},
                                                    {"<=", Relation::less_or_equal},
                                                    {">", Relation::greater},
                                                    {">=", Relation::greater_or_equal}}};

}  // namespace

template <class T, class... Args>
std::unique_ptr<const T> ExpressionParser::make(int line, Args&&... args) {
  if (++num_nodes_ > kMaxNodes) tokens_.refuse("the expression is too long");
  return std::make_unique<const T>(line, std::forward<Args>(args)...);
}

// Looks up names during parsing, so that mistakes are found before the template is rendered.
template <class Find>
auto ExpressionParser::find_or_refuse(Find find, const std::string& name) {
  try {
    return find(name);
  } catch (const TemplateError& error) {
    tokens_.refuse(error.what());
  }
}

ExpressionPointer ExpressionParser::parse(bool conditional) {
  if (depth_ == 0) num_nodes_ = 0;
  if (++depth_ > kMaxNesting) tokens_.refuse("the expression is nested too deeply");
  ExpressionPointer expression = conditional ? parse_conditional() : parse_or();
  --depth_;
  return expression;
}

bool ExpressionParser::at_end_of_tuple() const {
  return tokens_.is(Kind::block_end) || tokens_.is(Kind::variable_end) || tokens_.is_symbol(")") ||
         tokens_.is_symbol("=") || tokens_.is_name("recursive") || tokens_.is_name("if");
}

ExpressionPointer ExpressionParser::parse_tuple(bool conditional) {
  const int line = tokens_.line();
  ExpressionPointer first = parse(conditional);
  if (!tokens_.is_symbol(",")) return first;
  std::vector<ExpressionPointer> items;
  items.push_back(std::move(first));
  while (tokens_.skip_symbol(",")) {
    if (at_end_of_tuple()) break;
    items.push_back(parse(conditional));
  }
  return make<ListLiteral>(line, std::move(items), List::Kind::tuple);
}

ExpressionPointer ExpressionParser::parse_conditional() {
  ExpressionPointer value = parse_or();
  while (tokens_.is_name("if")) {
    const int line = tokens_.take().line;
    ExpressionPointer condition = parse_or(), otherwise;
    if (tokens_.skip_name("else")) otherwise = parse();
    value = make<Conditional>(line, std::move(value), std::move(condition), std::move(otherwise));
  }
  return value;
}

ExpressionPointer ExpressionParser::parse_or() {
  ExpressionPointer left = parse_and();
  while (tokens_.is_name("or")) {
    const int line = tokens_.take().line;
    left = make<AndOr>(line, false, std::move(left), parse_and());
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_and() {
  ExpressionPointer left = parse_not();
  while (tokens_.is_name("and")) {
    const int line = tokens_.take().line;
    left = make<AndOr>(line, true, std::move(left), parse_not());
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_comparison();
  const int line = tokens_.take().line;
  if (++depth_ > kMaxNesting) tokens_.refuse("the expression is nested too deeply");
  ExpressionPointer operand = parse_not();
  --depth_;
  return make<Not>(line, std::move(operand));
}

ExpressionPointer ExpressionParser::parse_comparison() {
  const int line = tokens_.line();
  ExpressionPointer first = parse_sum();
  Comparison::Rest rest;
  while (true) {
    const auto known = std::ranges::find_if(
        kRelations, [&](const RelationSymbol& known) { return tokens_.is_symbol(known.symbol); });
    if (known != kRelations.end()) {
      tokens_.take();
      rest.emplace_back(known->relation, parse_sum());
    } else if (tokens_.skip_name("in")) {
      rest.emplace_back(Relation::in, parse_sum());
    } else if (tokens_.is_name("not") && tokens_.is(Kind::name, "in", 1)) {
      tokens_.take();
      tokens_.take();
      rest.emplace_back(Relation::not_in, parse_sum());
    } else {
      break;
    }
  }
  if (rest.empty()) return first;
  return make<Comparison>(line, std::move(first), std::move(rest));
}

ExpressionPointer ExpressionParser::parse_chain(std::span<const OperatorSymbol> operators,
                                                ExpressionPointer (ExpressionParser::*operand)()) {
  ExpressionPointer left = (this->*operand)();
  while (true) {
    const auto known = std::ranges::find_if(
        operators, [&](const OperatorSymbol& known) { return tokens_.is_symbol(known.symbol); });
    if (known == operators.end()) return left;
    const int line = tokens_.take().line;
    left = make<Arithmetic>(line, known->kind, std::move(left), (this->*operand)());
  }
}

ExpressionPointer ExpressionParser::parse_sum() {
  static constexpr std::array<OperatorSymbol, 2> kSums{
      {{"+", Operator::add}, {"-", Operator::subtract}}};
  return parse_chain(kSums, &ExpressionParser::parse_concatenation);
}

ExpressionPointer ExpressionParser::parse_concatenation() {
  const int line = tokens_.line();
  ExpressionPointer first = parse_product();
  if (!tokens_.is_symbol("~")) return first;
  std::vector<ExpressionPointer> parts;
  parts.push_back(std::move(first));
  while (tokens_.skip_symbol("~")) parts.push_back(parse_product());
  return make<Concatenation>(line, std::move(parts));
}

ExpressionPointer ExpressionParser::parse_product() {
  static constexpr std::array<OperatorSymbol, 4> kProducts{{{"*", Operator::multiply},
                                                            {"/", Operator::divide},
                                                            {"//", Operator::floor_divide},
                                                            {"%", Operator::modulo}}};
  return parse_chain(kProducts, &ExpressionParser::parse_power);
}

ExpressionPointer ExpressionParser::parse_power() {
  static constexpr std::array<OperatorSymbol, 1> kPowers{{{"**", Operator::power}}};
  return parse_chain(kPowers, &ExpressionParser::parse_nested);
}

ExpressionPointer ExpressionParser::parse_nested() {
  return parse_unary(/*with_filters=*/true);
}

ExpressionPointer ExpressionParser::parse_unary(bool with_filters) {
  const int line = tokens_.line();
  ExpressionPointer operand;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    const bool negative = tokens_.take().text == "-";
    if (++depth_ > kMaxNesting) tokens_.refuse("the expression is nested too deeply");
    operand = make<Sign>(line, negative, parse_unary(/*with_filters=*/false));
    --depth_;
  } else {
    operand = parse_primary();
  }
  operand = parse_postfix(std::move(operand));
  return with_filters ? parse_filters_and_tests(std::move(operand)) : std::move(operand);
}

ExpressionPointer ExpressionParser::parse_primary() {
  switch (tokens_.peek().kind) {
    case Kind::name:
      return parse_name();
    case Kind::string:
      return parse_strings();
    case Kind::integer:
    case Kind::real:
      return parse_number();
    default:
      if (tokens_.is_symbol("(")) return parse_brackets();
      if (tokens_.is_symbol("[")) return parse_list();
      if (tokens_.is_symbol("{")) return parse_dict();
      tokens_.fail("an expression");
  }
}

ExpressionPointer ExpressionParser::parse_name() {
  const Token token = tokens_.take();
  if (token.text == "true" || token.text == "True") return make<Constant>(token.line, Value(true));
  if (token.text == "false" || token.text == "False") {
    return make<Constant>(token.line, Value(false));
  }
  if (token.text == "none" || token.text == "None") return make<Constant>(token.line, Value());
  return make<Name>(token.line, token.text);
}

ExpressionPointer ExpressionParser::parse_number() {
  const Token token = tokens_.peek();
  const char* const end = token.text.data() + token.text.size();
  int64_t integer = 0;
  double real = 0;
  const auto read = token.kind == Kind::integer ? std::from_chars(token.text.data(), end, integer)
                                                : std::from_chars(token.text.data(), end, real);
  if (read.ec != std::errc() || read.ptr != end) tokens_.refuse("a number is too large");
  tokens_.take();
  return make<Constant>(token.line, token.kind == Kind::integer ? Value(integer) : Value(real));
}

ExpressionPointer ExpressionParser::parse_strings() {
  const int line = tokens_.line();
  std::string text;
  while (tokens_.is(Kind::string)) text += tokens_.take().text;
  return make<Constant>(line, Value(std::move(text)));
}

ExpressionPointer ExpressionParser::parse_brackets() {
  const int line = tokens_.take().line;
  if (tokens_.skip_symbol(")")) {
    return make<ListLiteral>(line, std::vector<ExpressionPointer>(), List::Kind::tuple);
  }
  ExpressionPointer inner = parse_tuple();
  tokens_.expect_symbol(")");
  return inner;
}

ExpressionPointer ExpressionParser::parse_list() {
  const int line = tokens_.take().line;
  std::vector<ExpressionPointer> items;
  while (!tokens_.is_symbol("]")) {
    items.push_back(parse());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("]");
  return make<ListLiteral>(line, std::move(items), List::Kind::list);
}

ExpressionPointer ExpressionParser::parse_dict() {
  const int line = tokens_.take().line;
  DictLiteral::Entries entries;
  while (!tokens_.is_symbol("}")) {
    ExpressionPointer key = parse();
    tokens_.expect_symbol(":");
    entries.emplace_back(std::move(key), parse());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("}");
  return make<DictLiteral>(line, std::move(entries));
}

ExpressionPointer ExpressionParser::parse_postfix(ExpressionPointer operand) {
  while (true) {
    if (tokens_.is_symbol(".")) {
      operand = parse_attribute(std::move(operand));
    } else if (tokens_.is_symbol("[")) {
      operand = parse_subscript(std::move(operand));
    } else if (tokens_.is_symbol("(")) {
      operand = parse_call_of(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPointer ExpressionParser::parse_filters_and_tests(ExpressionPointer operand) {
  while (true) {
    if (tokens_.is_symbol("|")) {
      operand = parse_filter(std::move(operand));
    } else if (tokens_.is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (tokens_.is_symbol("(")) {
      operand = parse_call_of(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPointer ExpressionParser::parse_filters(ExpressionPointer operand) {
  while (tokens_.is_symbol("|")) operand = parse_filter(std::move(operand));
  return operand;
}

ExpressionPointer ExpressionParser::parse_attribute(ExpressionPointer object) {
  const int line = tokens_.take().line;
  if (tokens_.is(Kind::integer)) return make<Subscript>(line, std::move(object), parse_number());
  const std::string name = tokens_.expect(Kind::name, "the name of an attribute").text;
  return make<Attribute>(line, std::move(object), name);
}

ExpressionPointer ExpressionParser::parse_subscript(ExpressionPointer object) {
  const int line = tokens_.take().line;
  std::vector<ExpressionPointer> bounds(1);
  if (!tokens_.is_symbol(":")) bounds[0] = parse();
  while (tokens_.skip_symbol(":") && bounds.size() < 3) {
    const bool missing = tokens_.is_symbol(":") || tokens_.is_symbol("]");
    bounds.push_back(missing ? nullptr : parse());
  }
  tokens_.expect_symbol("]");
  if (bounds.size() == 1) return make<Subscript>(line, std::move(object), std::move(bounds[0]));
  bounds.resize(3);
  return make<Slice>(line, std::move(object), std::move(bounds));
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments arguments;
  tokens_.expect_symbol("(");
  while (!tokens_.is_symbol(")")) {
    if (tokens_.skip_symbol("*")) {
      arguments.more_positional = parse();
    } else if (tokens_.skip_symbol("**")) {
      arguments.more_named = parse();
    } else if (tokens_.is(Kind::name) && tokens_.is(Kind::symbol, "=", 1)) {
      std::string name = tokens_.take().text;
      tokens_.take();
      arguments.named.emplace_back(std::move(name), parse());
    } else {
      arguments.positional.push_back(parse());
    }
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol(")");
  return arguments;
}

ExpressionPointer ExpressionParser::parse_call_of(ExpressionPointer callee) {
  const int line = tokens_.line();
  CallArguments arguments = parse_arguments();
  return make<Call>(line, std::move(callee), std::move(arguments));
}

std::unique_ptr<const Call> ExpressionParser::parse_call() {
  const int line = tokens_.line();
  ExpressionPointer callee = parse_name();
  while (tokens_.is_symbol(".")) callee = parse_attribute(std::move(callee));
  CallArguments arguments = parse_arguments();
  return make<Call>(line, std::move(callee), std::move(arguments));
}

ExpressionPointer ExpressionParser::parse_filter(ExpressionPointer operand) {
  const int line = tokens_.take().line;
  const std::string name = tokens_.expect(Kind::name, "the name of a filter").text;
  const Filter filter = find_or_refuse(find_filter, name);
  CallArguments arguments;
  if (tokens_.is_symbol("(")) arguments = parse_arguments();
  return make<FilterCall>(line, std::move(operand), filter, std::move(arguments));
}

CallArguments ExpressionParser::parse_test_arguments() {
  if (tokens_.is_symbol("(")) return parse_arguments();
  CallArguments arguments;
  const Kind kind = tokens_.peek().kind;
  const bool begins_operand = kind == Kind::name || kind == Kind::string || kind == Kind::integer ||
                              kind == Kind::real || tokens_.is_symbol("[") ||
                              tokens_.is_symbol("{");
  for (const char* next : {"else", "or", "and", "is", "if", "in", "not"}) {
    if (tokens_.is_name(next)) return arguments;
  }
  if (begins_operand) arguments.positional.push_back(parse_postfix(parse_primary()));
  return arguments;
}

ExpressionPointer ExpressionParser::parse_test(ExpressionPointer operand) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.skip_name("not");
  const std::string name = tokens_.expect(Kind::name, "the name of a test").text;
  const Test test = find_or_refuse(find_test, name);
  CallArguments arguments = parse_test_arguments();
  ExpressionPointer call = make<TestCall>(line, std::move(operand), test, std::move(arguments));
  if (!negated) return call;
  return make<Not>(line, std::move(call));
}

Target ExpressionParser::parse_target(std::string_view end) {
  Target target;
  do {
    Target part;
    if (tokens_.skip_symbol("(")) {
      if (++depth_ > kMaxNesting) tokens_.refuse("names are nested too deeply");
      part = parse_target(")");
      --depth_;
      tokens_.expect_symbol(")");
    } else {
      part.name = tokens_.expect(Kind::name, "a name to assign to").text;
      if (tokens_.skip_symbol(".")) {
        part.attribute = tokens_.expect(Kind::name, "the name of an attribute").text;
      }
    }
    target.parts.push_back(std::move(part));
  } while (tokens_.skip_symbol(",") && !tokens_.is_name(end) && !tokens_.is_symbol(end));
  const bool single = target.parts.size() == 1;
  if (single) {
    Target only = std::move(target.parts[0]);
    return only;
  }
  return target;
}

}  // namespace colossal::text::jinja
