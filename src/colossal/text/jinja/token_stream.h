// A cursor over the tokens of a template, for the parsers.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/lexer.h"
#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

// Reads tokens one after the other. The last token must have the kind `end`, as from
// split_into_tokens(). The cursor does not move past this token.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Returns the token `ahead` positions after the current token, at most the last token.
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  // Returns the line of the current token.
  int line() const { return peek().line; }
  // Returns the current token and moves to the next token.
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  // Return whether the current token (or a later one, see peek()) has this kind and text.
  bool is(Token::Kind kind) const { return peek().kind == kind; }
  bool is(Token::Kind kind, std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == kind && peek(ahead).text == text;
  }
  bool is_symbol(std::string_view symbol) const { return is(Token::Kind::symbol, symbol); }
  bool is_name(std::string_view name) const { return is(Token::Kind::name, name); }
  // If the current token is this symbol or name, move to the next token and return true.
  bool skip_symbol(std::string_view symbol) { return is_symbol(symbol) && (take(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }

  // Inserts a symbol before the current token and makes it the current token.
  void insert_symbol(std::string symbol) {
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                   {Token::Kind::symbol, std::move(symbol), line()});
  }

  // Returns the current token and moves to the next token. If the current token is not of this
  // kind, calls fail(what). what: describes the expected token in the message.
  Token expect(Token::Kind kind, std::string_view what) {
    if (!is(kind)) fail(what);
    return take();
  }
  // Moves past this symbol. If the current token is another one, throws TemplateError.
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail(fmt::format("'{}'", symbol));
  }

  // Throws TemplateError "line N: expected EXPECTED, found TOKEN".
  [[noreturn]] void fail(std::string_view expected) const {
    refuse(fmt::format("expected {}, found {}", expected, describe(peek())));
  }
  // Throws TemplateError "line N: WHAT".
  [[noreturn]] void refuse(const std::string& what) const {
    throw TemplateError(fmt::format("line {}: {}", line(), what));
  }

 private:
  // Returns how messages name a token.
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
  size_t at_ = 0;  // index of the current token
};

}  // namespace colossal::text::jinja
