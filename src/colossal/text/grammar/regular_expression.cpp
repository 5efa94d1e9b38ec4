#include "colossal/text/grammar/regular_expression.h"

#include <optional>
#include <string>

#include "colossal/text/utf8.h"

namespace colossal::text::grammar {
namespace {

constexpr int kMaxGroups = 100;  // most nested groups
constexpr size_t kMaxExpression = size_t{64} << 10;

using Ranges = std::vector<CharacterRange>;

const Ranges kDigits{{'0', '9'}};
const Ranges kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace{{'\t', '\r'}, {' ', ' '}};
const Ranges kNeedEscapes{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

class ExpressionReader {
 public:
  ExpressionReader(Grammar& grammar, std::string_view expression, bool within_json)
      : grammar_(grammar), rest_(expression), within_json_(within_json) {}

  Symbol read_all() {
    if (rest_.starts_with('^')) rest_.remove_prefix(1);
    const Symbol symbol = read_alternatives();
    if (!rest_.empty()) refuse("an unexpected ')'");
    return symbol;
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw GrammarError("the regular expression has " + what);
  }

  bool skip(char symbol) {
    if (!rest_.starts_with(symbol)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  char32_t take() {
    if (rest_.empty()) refuse("an end where something must follow");
    size_t length = 0;
    const char32_t character = next_code_point(rest_, length);
    rest_.remove_prefix(length);
    return character;
  }

  Symbol read_alternatives() {
    if (++depth_ > kMaxGroups) refuse("groups nested too deeply");
    std::vector<Sequence> alternatives;
    do {
      alternatives.push_back(read_sequence());
    } while (skip('|'));
    --depth_;
    return grammar_.add_anonymous_rule(std::move(alternatives));
  }

  Sequence read_sequence() {
    Sequence sequence;
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      if (rest_ == "$") {
        rest_ = {};
        break;
      }
      const Symbol atom = read_atom();
      const Sequence repeated = read_repetition(atom);
      sequence.insert(sequence.end(), repeated.begin(), repeated.end());
    }
    return sequence;
  }

  Sequence read_repetition(const Symbol& atom) {
    Sequence sequence{atom};
    if (skip('*')) {
      sequence = grammar_.repeated(atom, 0, -1);
    } else if (skip('+')) {
      sequence = grammar_.repeated(atom, 1, -1);
    } else if (skip('?')) {
      sequence = {grammar_.optional(atom)};
    } else if (rest_.starts_with('{')) {
      sequence = read_counts(atom);
    } else {
      return sequence;
    }
    // Accepts lazy quantifiers: laziness does not change which texts match.
    skip('?');
    if (!rest_.empty() && (rest_[0] == '*' || rest_[0] == '+' || rest_[0] == '{')) {
      refuse("a repetition of a repetition");
    }
    return sequence;
  }

  std::optional<int64_t> read_count() {
    if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') return {};
    int64_t count = 0;
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1)) {
      count = std::min<int64_t>(count * 10 + (rest_[0] - '0'), 1 << 30);
    }
    return count;
  }

  Sequence read_counts(const Symbol& atom) {
    skip('{');
    const auto minimum = read_count();
    auto maximum = minimum;
    if (skip(',')) maximum = read_count().value_or(-1);
    if (!skip('}') || (!minimum && maximum.value_or(-1) < 0)) {
      refuse("a '{' that does not start a count; write \\{");
    }
    if (*maximum >= 0 && *maximum < minimum.value_or(0))
      refuse("a count that ends below its start");
    return grammar_.repeated(atom, minimum.value_or(0), *maximum);
  }

  Symbol read_atom() {
    switch (const char32_t first = take()) {
      case '(':
        return read_group();
      case '[':
        return characters(read_class());
      case '.':
        return characters(complement({{'\n', '\n'}}));
      case '\\':
        return characters(read_escape());
      case '^':
      case '$':
        refuse("'^' or '$' within it; they are supported at its ends");
      case '*':
      case '+':
      case '?':
        refuse("a repetition of nothing");
      default:
        return characters({{first, first}});
    }
  }

  Symbol read_group() {
    if (skip('?') && !skip(':')) refuse("a group of the kind (?" + std::string(rest_.substr(0, 1)));
    const Symbol group = read_alternatives();
    if (!skip(')')) refuse("a '(' without ')'");
    return group;
  }

  Symbol characters(Ranges ranges) {
    if (within_json_) {
      Ranges rest = complement(std::move(ranges));
      rest.insert(rest.end(), kNeedEscapes.begin(), kNeedEscapes.end());
      ranges = complement(std::move(rest));
    }
    return grammar_.character(ranges);
  }

  // Reads what follows a backslash.
  Ranges read_escape() {
    switch (const char32_t letter = take()) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      case 'n':
        return {{'\n', '\n'}};
      case 't':
        return {{'\t', '\t'}};
      case 'r':
        return {{'\r', '\r'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'x':
        return read_number(2);
      case 'u':
        return read_number(4);
      default:
        if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
            (letter >= '0' && letter <= '9')) {
          refuse(fmt::format("\\{}", static_cast<char>(letter)));
        }
        return {{letter, letter}};
    }
  }

  Ranges read_number(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char32_t digit = take();
      const bool is_digit = digit >= '0' && digit <= '9';
      const char32_t letter = digit | 0x20;
      if (!is_digit && (letter < 'a' || letter > 'f')) refuse("\\x or \\u without its digits");
      value = value * 16 + (is_digit ? digit - '0' : letter - 'a' + 10);
    }
    return {{value, value}};
  }

  Ranges read_class() {
    const bool negated = skip('^');
    Ranges ranges;
    bool first = true;
    while (first || !rest_.starts_with(']')) {
      first = false;
      if (rest_.starts_with("[:")) refuse("[: within a class");
      Ranges item = read_class_item();
      const bool single = item.size() == 1 && item[0].first == item[0].last;
      if (single && rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        take();
        const Ranges end = read_class_item();
        if (end.size() != 1 || end[0].first != end[0].last || end[0].first < item[0].first) {
          refuse("a range in a class that ends before it begins");
        }
        item[0].last = end[0].first;
      }
      ranges.insert(ranges.end(), item.begin(), item.end());
    }
    take();
    return negated ? complement(std::move(ranges)) : ranges;
  }

  Ranges read_class_item() {
    const char32_t character = take();
    if (character != '\\') return {{character, character}};
    if (skip('b')) return {{'\b', '\b'}};
    return read_escape();
  }

  Grammar& grammar_;
  std::string_view rest_;
  bool within_json_;
  int depth_ = 0;
};

}  // namespace

Symbol add_regular_expression(Grammar& grammar, std::string_view expression, bool within_json) {
  if (expression.size() > kMaxExpression || valid_utf8_length(expression) < expression.size()) {
    throw GrammarError("the regular expression is longer than 64 KiB or not UTF-8");
  }
  return ExpressionReader(grammar, expression, within_json).read_all();
}

}  // namespace colossal::text::grammar
