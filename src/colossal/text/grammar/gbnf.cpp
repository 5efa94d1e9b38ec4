#include "colossal/text/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "colossal/text/utf8.h"

namespace colossal::text::grammar {
namespace {

constexpr size_t kMaxGrammarBytes = size_t{64} << 10;
constexpr int kMaxNestedGroups = 100;

bool is_of_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '_';
}

class GbnfReader {
 public:
  GbnfReader(Grammar& grammar, std::string_view text) : grammar_(grammar), rest_(text) {}

  Symbol read_all() {
    skip_space(true);
    while (!rest_.empty()) read_rule();
    for (const auto& [name, rule] : rules_) {
      if (!rule.is_defined) throw GrammarError(fmt::format("the grammar has no rule {:?}", name));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw GrammarError("the grammar has no rule \"root\"");
    refuse_left_recursion();
    return {.rule = root->second.number};
  }

 private:
  struct Rule {
    int32_t number = 0;
    bool is_defined = false;
  };
  static constexpr int32_t kNoCircle = -1;

  [[noreturn]] void refuse(const std::string& what) const {
    throw GrammarError(fmt::format("line {} of the grammar has {}", line_, what));
  }

  void skip_space(bool over_lines) {
    while (!rest_.empty()) {
      if (rest_[0] == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r' ||
                 (over_lines && rest_[0] == '\n')) {
        line_ += rest_[0] == '\n';
        rest_.remove_prefix(1);
      } else {
        return;
      }
    }
  }

  bool skip(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  char32_t take() {
    if (rest_.empty() || rest_[0] == '\n') refuse("an end where something must follow");
    size_t length = 0;
    const char32_t character = next_code_point(rest_, length);
    rest_.remove_prefix(length);
    return character;
  }

  std::string read_name() {
    const auto end = std::ranges::find_if_not(rest_, is_of_name);
    std::string name(rest_.begin(), end);
    rest_.remove_prefix(name.size());
    return name;
  }

  Rule& rule_named(const std::string& name) {
    const auto [found, is_new] = rules_.try_emplace(name);
    if (is_new) found->second.number = grammar_.add_rule();
    return found->second;
  }

  void read_rule() {
    const std::string name = read_name();
    skip_space(false);
    if (name.empty() || !skip("::=")) refuse("something else than NAME ::= ...");
    Rule& rule = rule_named(name);
    if (std::exchange(rule.is_defined, true)) refuse(fmt::format("a second rule {:?}", name));
    const int32_t number = rule.number;
    for (Sequence& sequence : read_alternatives(0)) {
      grammar_.add_alternative(number, std::move(sequence));
    }
    if (!rest_.empty() && rest_[0] != '\n') refuse("an unexpected " + std::string(1, rest_[0]));
    skip_space(true);
  }

  std::vector<Sequence> read_alternatives(int depth) {
    if (depth > kMaxNestedGroups) refuse("groups nested too deeply");
    std::vector<Sequence> alternatives;
    do {
      skip_space(true);
      alternatives.push_back(read_sequence(depth));
      skip_to_bar();
    } while (skip("|"));
    return alternatives;
  }

  // Skips white space before '|', which may be on a later line. Skips nothing if there is no '|'.
  void skip_to_bar() {
    const std::string_view here = rest_;
    const int line = line_;
    skip_space(true);
    if (rest_.starts_with('|')) return;
    rest_ = here;
    line_ = line;
  }

  Sequence read_sequence(int depth) {
    Sequence sequence;
    for (;;) {
      skip_space(depth > 0);
      if (rest_.empty() || rest_[0] == '|' || rest_[0] == ')' || rest_[0] == '\n') return sequence;
      const Sequence repeated = read_repetition(read_atom(depth));
      sequence.insert(sequence.end(), repeated.begin(), repeated.end());
    }
  }

  Sequence read_atom(int depth) {
    if (skip("\"")) return read_text();
    if (skip("[")) return {read_class()};
    if (skip(".")) return {grammar_.character(complement({}))};
    if (skip("(")) {
      const Symbol group = grammar_.add_anonymous_rule(read_alternatives(depth + 1));
      skip_space(true);
      if (!skip(")")) refuse("a '(' without ')'");
      return {group};
    }
    const std::string name = read_name();
    if (name.empty()) refuse("an unexpected " + std::string(1, rest_[0]));
    return {{.rule = rule_named(name).number}};
  }

  Sequence read_text() {
    std::string text;
    while (!skip("\"")) append_utf8(text, read_character());
    return Grammar::literal(text);
  }

  Symbol read_class() {
    const bool opposite = skip("^");
    std::vector<CharacterRange> ranges;
    while (!skip("]")) {
      const char32_t first = read_character();
      char32_t last = first;
      if (rest_.starts_with('-') && !rest_.starts_with("-]")) {
        rest_.remove_prefix(1);
        last = read_character();
      }
      if (last < first) refuse("a range that ends before its start");
      ranges.push_back({first, last});
    }
    return grammar_.character(opposite ? complement(std::move(ranges)) : ranges);
  }

  char32_t read_character() {
    const char32_t character = take();
    if (character != '\\') return character;
    switch (const char32_t letter = take()) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'x':
        return read_number(2);
      case 'u':
        return read_number(4);
      case 'U':
        return read_number(8);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^':
        return letter;
      default:
        refuse("an invalid escape");
    }
  }

  char32_t read_number(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char32_t digit = take();
      const char32_t letter = digit | 0x20;
      const bool is_digit = digit >= '0' && digit <= '9', is_hex = letter >= 'a' && letter <= 'f';
      if (!is_digit && !is_hex) refuse("an escape without its digits");
      value = value * 16 + (is_digit ? digit - '0' : letter - 'a' + 10);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("no character's number");
    return value;
  }

  Sequence read_repetition(Sequence atom) {
    skip_space(false);
    const auto repeat = [&](int64_t minimum, int64_t maximum) {
      const Symbol symbol = atom.size() == 1 ? atom[0] : grammar_.add_anonymous_rule({atom});
      return grammar_.repeated(symbol, minimum, maximum);
    };
    if (skip("*")) return repeat(0, -1);
    if (skip("+")) return repeat(1, -1);
    if (skip("?")) return repeat(0, 1);
    if (!skip("{")) return atom;
    const auto minimum = read_count();
    auto maximum = minimum;
    if (skip(",")) maximum = read_count().value_or(-1);
    if (!skip("}") || !minimum) refuse("a '{' that does not start a count");
    if (*maximum >= 0 && *maximum < *minimum) refuse("a count that ends below its start");
    return repeat(*minimum, *maximum);
  }

  std::optional<int64_t> read_count() {
    skip_space(false);
    if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') return {};
    int64_t count = 0;
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1)) {
      count = std::min<int64_t>(count * 10 + (rest_[0] - '0'), 1 << 30);
    }
    skip_space(false);
    return count;
  }

  // Refuses rules that begin with themselves, possibly after symbols that may be empty: expanding
  // such a rule would never reach a byte.
  void refuse_left_recursion() const {
    const std::vector<int32_t> circles = circles_of_begins();
    for (const auto& [name, rule] : rules_) {
      if (circles[static_cast<size_t>(rule.number)] == kNoCircle) continue;
      throw GrammarError(fmt::format(
          "the grammar has a rule {:?} that begins with itself; write a repetition", name));
    }
  }

  // For each rule, returns the number of its cycle: rules that begin with each other have the same
  // number, that of one of them; kNoCircle for a rule that does not begin with itself. Takes linear
  // time (strongly connected components; R. Tarjan, "Depth-First Search and Linear Graph
  // Algorithms", 1972).
  std::vector<int32_t> circles_of_begins() const {
    const std::vector<bool> may_be_empty = empty_rules();
    const auto count = static_cast<size_t>(grammar_.num_rules());
    constexpr int32_t kNew = -1;
    std::vector<int32_t> order(count, kNew), lowest(count), circles(count, kNoCircle);
    std::vector<bool> is_open(count);
    struct Visit {
      int32_t rule;
      std::vector<int32_t> begins;
      size_t next = 0;
    };
    std::vector<Visit> path;
    std::vector<int32_t> open;
    int32_t visited = 0;
    const auto enter = [&](int32_t rule) {
      const auto i = static_cast<size_t>(rule);
      order[i] = lowest[i] = visited++;
      is_open[i] = true;
      open.push_back(rule);
      path.push_back({rule, begins_of(rule, may_be_empty)});
    };
    const auto leave = [&](const Visit& visit) {
      const auto i = static_cast<size_t>(visit.rule);
      if (lowest[i] < order[i]) return;
      const bool alone = open.back() == visit.rule;
      const bool is_circle =
          !alone || std::ranges::find(visit.begins, visit.rule) != visit.begins.end();
      for (int32_t rule = kNew; rule != visit.rule;) {
        rule = open.back();
        open.pop_back();
        is_open[static_cast<size_t>(rule)] = false;
        if (is_circle) circles[static_cast<size_t>(rule)] = visit.rule;
      }
    };
    for (int32_t first = 0; first < grammar_.num_rules(); ++first) {
      if (order[static_cast<size_t>(first)] == kNew) enter(first);
      while (!path.empty()) {
        Visit& here = path.back();
        const auto i = static_cast<size_t>(here.rule);
        if (here.next < here.begins.size()) {
          const int32_t next = here.begins[here.next++];
          const auto j = static_cast<size_t>(next);
          if (order[j] == kNew) {
            enter(next);
          } else if (is_open[j]) {
            lowest[i] = std::min(lowest[i], order[j]);
          }
          continue;
        }
        const Visit done = std::move(path.back());
        path.pop_back();
        leave(done);
        if (path.empty()) continue;
        int32_t& above = lowest[static_cast<size_t>(path.back().rule)];
        above = std::min(above, lowest[static_cast<size_t>(done.rule)]);
      }
    }
    return circles;
  }

  // Returns which rules may be empty. Takes linear time: a sequence is looked at again only when
  // one of its rules turns out to be possibly empty.
  std::vector<bool> empty_rules() const {
    const auto count = static_cast<size_t>(grammar_.num_rules());
    std::vector<bool> empty(count);
    // For each rule: the sequences that have the rule and no bytes.
    std::vector<std::vector<size_t>> needed_by(count);
    // For each such sequence: its rule, and how many of its symbols are not known to be possibly
    // empty.
    std::vector<int32_t> rule_of;
    std::vector<size_t> missing;
    std::vector<int32_t> found;
    const auto take = [&](int32_t rule) {
      if (empty[static_cast<size_t>(rule)]) return;
      empty[static_cast<size_t>(rule)] = true;
      found.push_back(rule);
    };
    for (int32_t rule = 0; rule < grammar_.num_rules(); ++rule) {
      for (const Sequence& sequence : grammar_.alternatives(rule)) {
        if (std::ranges::any_of(sequence, [](const Symbol& symbol) { return symbol.rule < 0; })) {
          continue;
        }
        for (const Symbol& symbol : sequence) {
          needed_by[static_cast<size_t>(symbol.rule)].push_back(missing.size());
        }
        rule_of.push_back(rule);
        missing.push_back(sequence.size());
        if (sequence.empty()) take(rule);
      }
    }
    while (!found.empty()) {
      const auto rule = static_cast<size_t>(found.back());
      found.pop_back();
      for (const size_t sequence : needed_by[rule]) {
        if (--missing[sequence] == 0) take(rule_of[sequence]);
      }
    }
    return empty;
  }

  std::vector<int32_t> begins_of(int32_t rule, const std::vector<bool>& may_be_empty) const {
    std::vector<int32_t> rules;
    for (const Sequence& sequence : grammar_.alternatives(rule)) {
      for (const Symbol& symbol : sequence) {
        if (symbol.rule < 0) break;
        rules.push_back(symbol.rule);
        if (!may_be_empty[static_cast<size_t>(symbol.rule)]) break;
      }
    }
    return rules;
  }

  Grammar& grammar_;
  std::string_view rest_;
  int line_ = 1;
  std::map<std::string, Rule> rules_;
};

}  // namespace

Symbol add_gbnf(Grammar& grammar, std::string_view text) {
  if (text.size() > kMaxGrammarBytes) throw GrammarError("the grammar is longer than 64 KiB");
  if (valid_utf8_length(text) < text.size()) throw GrammarError("the grammar is not valid UTF-8");
  return GbnfReader(grammar, text).read_all();
}

}  // namespace colossal::text::grammar
