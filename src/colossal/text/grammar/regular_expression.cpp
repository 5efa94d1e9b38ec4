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
// Line ends other than \n, which JavaScript's "." does not match.
const Ranges kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
// What JavaScript's or Python's \s matches.
const Ranges kAnySpace{{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},     {0xA0, 0xA0},
                       {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                       {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Ranges kBeyondAscii{{0x80, 0x10FFFF}};

Ranges joined(Ranges ranges, const Ranges& more) {
  ranges.insert(ranges.end(), more.begin(), more.end());
  return ranges;
}

// Divides a regular expression at each | that is in no group and in no class.
std::vector<std::string> alternatives_of(std::string_view pattern) {
  std::vector<std::string> alternatives(1);
  int groups = 0;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '|' && groups == 0 && !in_class) {
      alternatives.emplace_back();
      continue;
    }
    alternatives.back() += c;
    if (c == '\\' && i + 1 < pattern.size()) {
      alternatives.back() += pattern[++i];
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(' || c == ')') {
      groups += c == '(' ? 1 : -1;
    }
  }
  return alternatives;
}

// Whether the last character is a $ that no backslash makes an ordinary character.
bool ends_at_end(std::string_view pattern) {
  if (!pattern.ends_with('$')) return false;
  const size_t other = pattern.find_last_not_of('\\', pattern.size() - 2);
  return pattern.size() == 1 || (pattern.size() - 2 - other) % 2 == 0;
}

class ExpressionReader {
 public:
  ExpressionReader(Grammar& grammar, std::string_view expression, Dialect dialect)
      : grammar_(grammar), rest_(expression), dialect_(dialect) {}

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
    // JavaScript reads {,3} as these characters.
    const bool may_lack_minimum = dialect_ == Dialect::plain && maximum.value_or(-1) >= 0;
    if (!skip('}') || (!minimum && !may_lack_minimum)) {
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
        return grammar_.character(read_class());
      case '.':
        return grammar_.character(
            complement(dialect_ == Dialect::json_schema ? kLineEnds : Ranges{{'\n', '\n'}}));
      case '\\':
        return grammar_.character(read_escape(/*negated=*/false));
      case '^':
      case '$':
        refuse("'^' or '$' within it; they are supported at its ends");
      case '*':
      case '+':
      case '?':
        refuse("a repetition of nothing");
      default:
        return grammar_.character({{first, first}});
    }
  }

  Symbol read_group() {
    if (skip('?') && !skip(':')) refuse("a group of the kind (?" + std::string(rest_.substr(0, 1)));
    const Symbol group = read_alternatives();
    if (!skip(')')) refuse("a '(' without ')'");
    return group;
  }

  // Reads what follows a backslash. negated: it stands in a class [^...].
  Ranges read_escape(bool negated) {
    // Of a class of characters on which libraries differ: the most that it may match, or the least;
    // the opposite if it is subtracted.
    const bool is_most = (dialect_ == Dialect::any_of_json_schema) != negated;
    const bool is_wide = dialect_ != Dialect::plain && is_most;
    const bool is_narrow = dialect_ != Dialect::plain && !is_most;
    switch (const char32_t letter = take()) {
      case 'd':
        return is_wide ? joined(kDigits, kBeyondAscii) : kDigits;
      case 'D':
        return complement(is_narrow ? joined(kDigits, kBeyondAscii) : kDigits);
      case 'w':
        return is_wide ? joined(kWord, kBeyondAscii) : kWord;
      case 'W':
        return complement(is_narrow ? joined(kWord, kBeyondAscii) : kWord);
      case 's':
        return is_wide ? kAnySpace : kSpace;
      case 'S':
        return complement(is_narrow ? kAnySpace : kSpace);
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
      Ranges item = read_class_item(negated);
      const bool single = item.size() == 1 && item[0].first == item[0].last;
      if (single && rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        take();
        const Ranges end = read_class_item(negated);
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

  Ranges read_class_item(bool negated) {
    const char32_t character = take();
    if (character != '\\') return {{character, character}};
    if (skip('b')) return {{'\b', '\b'}};
    return read_escape(negated);
  }

  Grammar& grammar_;
  std::string_view rest_;
  Dialect dialect_;
  int depth_ = 0;
};

}  // namespace

Symbol add_regular_expression(Grammar& grammar, std::string_view expression, Dialect dialect) {
  if (expression.size() > kMaxExpression || valid_utf8_length(expression) < expression.size()) {
    throw GrammarError("the regular expression is longer than 64 KiB or not UTF-8");
  }
  return ExpressionReader(grammar, expression, dialect).read_all();
}

Symbol add_pattern(Grammar& grammar, std::string_view pattern, Dialect dialect) {
  const Sequence any = grammar.repeated(grammar.character(complement({})), 0, -1);
  std::vector<Sequence> alternatives;
  for (const std::string& alternative : alternatives_of(pattern)) {
    const bool begins = alternative.starts_with('^'), ends = ends_at_end(alternative);
    const std::string_view inner =
        std::string_view(alternative).substr(begins, alternative.size() - begins - ends);
    Sequence sequence;
    if (!begins) sequence = any;
    sequence.push_back(add_regular_expression(grammar, inner, dialect));
    if (!ends) sequence.insert(sequence.end(), any.begin(), any.end());
    alternatives.push_back(std::move(sequence));
  }
  return grammar.add_anonymous_rule(std::move(alternatives));
}

}  // namespace colossal::text::grammar
