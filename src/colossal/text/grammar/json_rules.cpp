#include "colossal/text/grammar/json_rules.h"

#include <iterator>
#include <utility>

#include "colossal/text/grammar/regular_expression.h"

namespace colossal::text::grammar {
namespace {

using Texts = std::set<std::string>::const_iterator;

// Adds the texts [begin, end), which have the same first `depth` bytes, without these bytes.
Symbol add_texts(Grammar& grammar, Texts begin, Texts end, size_t depth) {
  std::vector<Sequence> alternatives;
  if (begin != end && begin->size() == depth) {
    alternatives.emplace_back();
    ++begin;
  }
  while (begin != end) {
    Texts last = std::next(begin);
    while (last != end && (*last)[depth] == (*begin)[depth]) ++last;
    // The bytes that all of these texts share.
    size_t shared = depth + 1;
    const std::string &first = *begin, &other = *std::prev(last);
    while (shared < first.size() && shared < other.size() && first[shared] == other[shared]) {
      ++shared;
    }
    Sequence sequence = Grammar::literal(std::string_view(first).substr(depth, shared - depth));
    if (shared < other.size()) sequence.push_back(add_texts(grammar, begin, last, shared));
    alternatives.push_back(std::move(sequence));
    begin = last;
  }
  return grammar.add_anonymous_rule(std::move(alternatives));
}

}  // namespace

void append(Sequence& sequence, const Sequence& more) {
  sequence.insert(sequence.end(), more.begin(), more.end());
}

Symbol add_texts(Grammar& grammar, const std::set<std::string>& texts) {
  return add_texts(grammar, texts.begin(), texts.end(), 0);
}

JsonRules::JsonRules(Grammar& grammar) : grammar_(grammar) {
  // White space between elements: none, one space, or a line end with up to 20 spaces.
  Sequence line = Grammar::literal("\n");
  append(line, grammar.repeated(Grammar::literal(" ")[0], 0, 20));
  space_ = grammar.add_anonymous_rule({{}, Grammar::literal(" "), std::move(line)});
  // A high surrogate is followed by a low one: together they are one character.
  const Symbol escape = add_regular_expression(
      grammar, R"(\\(["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|)"
               R"([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))");
  const Symbol plain = grammar.character(complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  character_ = grammar.add_anonymous_rule({{plain}, {escape}});
  string_ = string(0, -1);
  integer_ = add_regular_expression(grammar, "-?(0|[1-9][0-9]{0,17})");
  number_ = add_regular_expression(
      grammar, R"(-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?)");
  value_ = {.rule = grammar.add_rule()};
  Sequence pair{string_};
  append(pair, spaced(":"));
  pair.push_back(value_);
  any_object_ = bracketed("{", grammar.add_anonymous_rule({std::move(pair)}), "}");
  const std::vector<Sequence> kinds{{any_object_},
                                    {bracketed("[", value_, "]")},
                                    {string_},
                                    {number_},
                                    Grammar::literal("true"),
                                    Grammar::literal("false"),
                                    Grammar::literal("null")};
  for (const Sequence& kind : kinds) grammar.add_alternative(value_.rule, kind);
}

Symbol JsonRules::string(int64_t minimum, int64_t maximum) {
  Sequence sequence = Grammar::literal("\"");
  append(sequence, grammar_.repeated(character_, minimum, maximum));
  append(sequence, Grammar::literal("\""));
  return grammar_.add_anonymous_rule({std::move(sequence)});
}

Symbol JsonRules::any_of(const std::set<std::string>& texts) {
  return add_texts(grammar_, texts);
}

Sequence JsonRules::spaced(std::string_view text) const {
  Sequence sequence{space_};
  append(sequence, Grammar::literal(text));
  sequence.push_back(space_);
  return sequence;
}

Sequence JsonRules::opened(std::string_view bracket) const {
  Sequence sequence = Grammar::literal(bracket);
  sequence.push_back(space_);
  return sequence;
}

Sequence JsonRules::closed(std::string_view bracket) const {
  Sequence sequence{space_};
  append(sequence, Grammar::literal(bracket));
  return sequence;
}

// Any number of items between brackets.
Symbol JsonRules::bracketed(std::string_view open, const Symbol& item, std::string_view close) {
  Sequence none = opened(open), some = opened(open);
  append(none, Grammar::literal(close));
  Sequence next = spaced(",");
  next.push_back(item);
  some.push_back(item);
  append(some, grammar_.repeated(grammar_.add_anonymous_rule({std::move(next)}), 0, -1));
  append(some, closed(close));
  return grammar_.add_anonymous_rule({std::move(none), std::move(some)});
}

}  // namespace colossal::text::grammar
