// A cursor over the tokens of a template.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/lexer.h"
#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Returns the current token or, with `ahead`, a later one; the token `end` beyond the last.
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  int line() const { return peek().line; }
  // Returns the current token and moves past it, except past the token `end`.
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool is(Token::Kind kind, std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == kind && peek(ahead).text == text;
  }
  bool is_symbol(std::string_view symbol) const { return is(Token::Kind::symbol, symbol); }
  bool is_name(std::string_view name) const { return is(Token::Kind::name, name); }
  // If the current token is this symbol or name, move past it and return true.
  bool skip_symbol(std::string_view symbol) { return is_symbol(symbol) && (take(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }

  // Inserts a symbol before the current token.
  void insert_symbol(std::string symbol) {
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                   {Token::Kind::symbol, std::move(symbol), line()});
  }

  // If the current token is of this kind or is this symbol, move past it; otherwise fail(). what:
  // the expected token, for the message.
  Token expect(Token::Kind kind, std::string_view what) {
    if (!is(kind)) fail(what);
    return take();
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail(fmt::format("'{}'", symbol));
  }

  // Throw TemplateError with the current line: that `expected` was not found, or `what`.
  [[noreturn]] void fail(std::string_view expected) const {
    refuse(fmt::format("expected {}, found {}", expected, describe(peek())));
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw TemplateError(fmt::format("line {}: {}", line(), what));
  }

 private:
  static std::string describe(const Token& token) {
    switch (token.kind) {
      case Token::Kind::end:
        return "the end of the template";
      case Token::Kind::block_end:
        return "the end of the tag";
      case Token::Kind::variable_end:
        return "'}}'";
      case Token::Kind::text:
        return "text";
      default:
        return "'" + token.text.substr(0, 40) + "'";
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace colossal::text::jinja
