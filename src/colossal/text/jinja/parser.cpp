#include "colossal/text/jinja/parser.h"

#include <array>
#include <initializer_list>

#include "colossal/text/jinja/expression_parser.h"
#include "colossal/text/jinja/statements.h"

namespace colossal::text::jinja {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
constexpr int kMaxBlocks = 100;  // most nested blocks

class Parser {
 public:
  explicit Parser(std::string_view source)
      : tokens_(split_into_tokens(source)), expressions_(tokens_) {}

  Block parse_all() {
    Block block = parse_until({});
    if (!tokens_.is(Token::Kind::end)) refuse_tag();
    return block;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Parses statements up to a tag with one of these names, which is not consumed.
  Block parse_until(Names ends) {
    if (++depth_ > kMaxBlocks) tokens_.refuse("blocks are nested too deeply");
    Block block;
    while (!tokens_.is(Token::Kind::end) && !at_tag(ends)) block.push_back(parse_statement());
    --depth_;
    return block;
  }

  bool at_tag(Names names) const {
    return tokens_.is(Token::Kind::block_begin) &&
           std::ranges::any_of(names, [&](std::string_view name) {
             return tokens_.is(Token::Kind::name, name, 1);
           });
  }

  // Parses a block and its end tag, which is consumed.
  Block parse_body(std::string_view end) {
    Block body = parse_until({end});
    take_tag(end);
    end_tag();
    return body;
  }

  void take_tag(std::string_view name) {
    if (!at_tag({name})) tokens_.fail(fmt::format("{{% {} %}}", name));
    tokens_.take();
    tokens_.take();
  }

  void end_tag() { tokens_.expect(Token::Kind::block_end, "the end of the tag"); }

  std::unique_ptr<const Statement> parse_statement() {
    const int line = tokens_.line();
    if (tokens_.is(Token::Kind::text)) return std::make_unique<Text>(line, tokens_.take().text);
    if (tokens_.is(Token::Kind::block_begin)) return parse_block(line);
    tokens_.expect(Token::Kind::variable_begin, "text or a tag");
    auto value = expressions_.parse_tuple();
    tokens_.expect(Token::Kind::variable_end, "'}}'");
    return std::make_unique<Print>(line, std::move(value));
  }

  [[noreturn]] void refuse_tag() const {
    tokens_.refuse(fmt::format("unexpected tag {{% {} %}}", tokens_.peek(1).text.substr(0, 40)));
  }

  std::unique_ptr<const Statement> parse_block(int line) {
    using Parse = std::unique_ptr<const Statement> (Parser::*)(int);
    struct Tag {
      std::string_view name;
      Parse parse;
    };
    static constexpr std::array<Tag, 10> kTags{{{"if", &Parser::parse_if},
                                                {"for", &Parser::parse_for},
                                                {"set", &Parser::parse_set},
                                                {"macro", &Parser::parse_macro},
                                                {"call", &Parser::parse_call},
                                                {"filter", &Parser::parse_filter},
                                                {"with", &Parser::parse_with},
                                                {"generation", &Parser::parse_generation},
                                                {"break", &Parser::parse_loop_control},
                                                {"continue", &Parser::parse_loop_control}}};
    for (const Tag& tag : kTags) {
      if (!at_tag({tag.name})) continue;
      tokens_.take();
      return (this->*tag.parse)(line);
    }
    refuse_tag();
  }

  std::unique_ptr<const Statement> parse_if(int line) {
    If::Branches branches;
    do {
      tokens_.take();  // if, elif
      auto condition = expressions_.parse_tuple(/*conditional=*/false);
      end_tag();
      branches.emplace_back(std::move(condition), parse_until({"elif", "else", "endif"}));
      if (tokens_.is(Token::Kind::end)) take_tag("endif");
      tokens_.take();
    } while (tokens_.is_name("elif"));
    if (tokens_.skip_name("else")) {
      end_tag();
      branches.emplace_back(nullptr, parse_until({"endif"}));
      take_tag("endif");
    } else {
      tokens_.take();
    }
    end_tag();
    return std::make_unique<If>(line, std::move(branches));
  }

  std::unique_ptr<const Statement> parse_for(int line) {
    tokens_.take();
    For::Parts parts;
    parts.target = expressions_.parse_target("in");
    if (!tokens_.skip_name("in")) tokens_.fail("'in'");
    parts.items = expressions_.parse_tuple(/*conditional=*/false);
    if (tokens_.skip_name("if")) parts.condition = expressions_.parse();
    if (tokens_.is_name("recursive")) tokens_.refuse("{% for ... recursive %} is not supported");
    end_tag();
    ++loops_;
    parts.body = parse_until({"else", "endfor"});
    --loops_;
    if (at_tag({"else"})) {
      take_tag("else");
      end_tag();
      parts.otherwise = parse_until({"endfor"});
    }
    take_tag("endfor");
    end_tag();
    return std::make_unique<For>(line, std::move(parts));
  }

  std::unique_ptr<const Statement> parse_set(int line) {
    tokens_.take();
    Target target = expressions_.parse_target("=");
    if (tokens_.skip_symbol("=")) {
      auto value = expressions_.parse_tuple();
      end_tag();
      return std::make_unique<Set>(line, std::move(target), std::move(value));
    }
    auto value = parse_written(line, "endset");
    return std::make_unique<Set>(line, std::move(target), std::move(value));
  }

  // Parses "|filter... %} body {% end %}": the output of the body, passed through the filters that
  // come before it.
  ExpressionPointer parse_written(int line, std::string_view end) {
    // The filters come first in the text, but apply to the body. A placeholder stands for the body
    // until it is parsed.
    auto operand = std::make_unique<Deferred>(line);
    const Deferred* const place = operand.get();
    auto value = expressions_.parse_filters(std::move(operand));
    end_tag();
    place->body = std::make_unique<const BlockOutput>(line, parse_without_loop(end));
    return value;
  }

  // An operand that is set after the expression that contains it was parsed.
  class Deferred : public Expression {
   public:
    using Expression::Expression;
    mutable ExpressionPointer body;

   private:
    Value compute(Interpreter& interpreter) const override { return body->evaluate(interpreter); }
  };

  // Parses a body that runs by itself: break and continue in it cannot refer to a loop around it.
  Block parse_without_loop(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Block body = parse_body(end);
    loops_ = loops;
    return body;
  }

  void parse_parameters(MacroDefinition& macro) {
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      std::string name = tokens_.expect(Token::Kind::name, "the name of a parameter").text;
      ExpressionPointer otherwise;
      if (tokens_.skip_symbol("=")) otherwise = expressions_.parse();
      macro.parameters.emplace_back(std::move(name), std::move(otherwise));
      if (!tokens_.skip_symbol(",")) break;
    }
    tokens_.expect_symbol(")");
  }

  std::unique_ptr<const Statement> parse_macro(int line) {
    tokens_.take();
    MacroDefinition macro;
    macro.name = tokens_.expect(Token::Kind::name, "the name of the macro").text;
    parse_parameters(macro);
    end_tag();
    macro.body = parse_without_loop("endmacro");
    return std::make_unique<Macro>(line, std::move(macro));
  }

  std::unique_ptr<const Statement> parse_call(int line) {
    tokens_.take();
    MacroDefinition caller{.name = "caller"};
    if (tokens_.is_symbol("(")) parse_parameters(caller);
    if (!tokens_.is(Token::Kind::name)) tokens_.fail("the name of a macro");
    auto call = expressions_.parse_call();
    end_tag();
    caller.body = parse_without_loop("endcall");
    return std::make_unique<CallBlock>(line, std::move(call), std::move(caller));
  }

  std::unique_ptr<const Statement> parse_filter(int line) {
    tokens_.take();
    tokens_.insert_symbol("|");
    return std::make_unique<Print>(line, parse_written(line, "endfilter"));
  }

  std::unique_ptr<const Statement> parse_with(int line) {
    tokens_.take();
    With::Variables variables;
    while (!tokens_.is(Token::Kind::block_end)) {
      Target target = expressions_.parse_target("=");
      tokens_.expect_symbol("=");
      variables.emplace_back(std::move(target), expressions_.parse());
      if (!tokens_.skip_symbol(",")) break;
    }
    end_tag();
    Block body = parse_body("endwith");
    return std::make_unique<With>(line, std::move(variables), std::move(body));
  }

  std::unique_ptr<const Statement> parse_generation(int line) {
    tokens_.take();
    end_tag();
    return std::make_unique<Generation>(line, parse_without_loop("endgeneration"));
  }

  std::unique_ptr<const Statement> parse_loop_control(int line) {
    if (loops_ == 0) tokens_.refuse(fmt::format("'{}' stands in no loop", tokens_.peek().text));
    const bool ends = tokens_.take().text == "break";
    end_tag();
    return std::make_unique<LoopControl>(
        line, ends ? Statement::Flow::end_loop : Statement::Flow::next_round);
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  // number of loops around the current place
};

}  // namespace

Block parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    throw TemplateError(fmt::format("a template of {} bytes: at most {} are read", source.size(),
                                    kMaxTemplateBytes));
  }
  return Parser(source).parse_all();
}

}  // namespace colossal::text::jinja
