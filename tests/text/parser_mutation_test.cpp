// Damaged grammars, and damaged calls of tools, from a fixed seed: 2 seconds each, or as many as
// COLOSSAL_FUZZ_SECONDS says, from a seed of the clock's. What a parser says of them, it says by a
// ConfigError, soon, and the same however a text is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/text/grammar/automaton.h"
#include "colossal/text/grammar/gbnf.h"
#include "colossal/text/tool_call_parser.h"

namespace colossal::text {
namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

// Texts that begin as these and lose, get and repeat pieces.
class Mutator {
 public:
  Mutator(std::vector<std::string> texts, std::string alphabet, uint64_t seed)
      : texts_(std::move(texts)), alphabet_(std::move(alphabet)), random_(seed) {}

  std::string next() {
    std::string text = texts_[below(texts_.size())];
    for (size_t changes = below(8); changes > 0; --changes) change(text);
    return text;
  }
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  std::string piece() {
    const std::string& other = texts_[below(texts_.size())];
    const size_t begin = below(other.size());
    return other.substr(begin, 1 + below(12));
  }
  void change(std::string& text) {
    const size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        text.erase(at, 1 + below(10));
        return;
      case 1:
        text.insert(at, piece());
        return;
      case 2:
        text.insert(at, 1, alphabet_[below(alphabet_.size())]);
        return;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        return;
      case 4:
        text.resize(at);
        return;
      default:
        text.insert(at, text.substr(at, 1 + below(40)));
    }
  }

  std::vector<std::string> texts_;
  std::string alphabet_;
  Random random_;
};

struct Budget {
  double seconds = 2;
  uint64_t seed = 1;

  static Budget of_environment() {
    const char* const given = std::getenv("COLOSSAL_FUZZ_SECONDS");
    if (!given) return {};
    return {std::atof(given), static_cast<uint64_t>(Clock::now().time_since_epoch().count())};
  }
};

// Calls run(text) until the time is over; each may take a second at most.
template <typename Run>
void for_mutations(std::vector<std::string> texts, const std::string& alphabet, const Run& run) {
  const Budget budget = Budget::of_environment();
  Mutator mutator(std::move(texts), alphabet, budget.seed);
  const auto start = Clock::now();
  int64_t runs = 0;
  for (auto now = start; std::chrono::duration<double>(now - start).count() < budget.seconds;) {
    const std::string text = mutator.next();
    run(text, mutator);
    const auto end = Clock::now();
    ASSERT_LT(std::chrono::duration<double>(end - now).count(), 1)
        << "seed " << budget.seed << ": " << testing::PrintToString(text);
    ASSERT_FALSE(testing::Test::HasFailure())
        << "seed " << budget.seed << ": " << testing::PrintToString(text);
    now = end;
    ++runs;
  }
  testing::Test::RecordProperty("runs", std::to_string(runs));
  std::printf("%lld runs from seed %llu\n", static_cast<long long>(runs),
              static_cast<unsigned long long>(budget.seed));
}

TEST(ParserMutation, GrammarsAreReadOrRefused) {
  for_mutations(
      {"root ::= \"a\"{2} \"bc\"{1,} [^x-z\\]]{0,2} . \"\\x21\\u00e4\\\"\"?",
       "root  ::= (expr \"=\" ws term \"\\n\")+\nexpr  ::= term ([-+*/] term)*\nterm  ::= ident\n"
       "        | num\n        | \"(\" ws expr \")\" ws   # within\nident ::= [a-z] [a-z0-9_]* ws\n"
       "num   ::= [0-9]+ ws\nws    ::= [ \\t\\n]*\n",
       "root ::=\n \"a\" |\n \"b\"\n | other\nother ::= \"c\" other | ((root)*)+"},
      "\"\\[]{}()|*+?.^-:=#\n ,0129az\xc3\xa4", [](const std::string& text, Mutator& mutator) {
        try {
          grammar::Grammar made;
          const grammar::Symbol root = grammar::add_gbnf(made, text);
          grammar::Automaton automaton(made, root);
          auto state = automaton.start();
          for (int i = 0; i < 12 && state != grammar::Automaton::kDead; ++i) {
            const char byte = "abc=+1(\n!\xc3\xa4\""[mutator.below(13)];
            state = automaton.next(state, {&byte, 1});
          }
        } catch (const ConfigError&) {
        }
      });
}

struct FoundCalls {
  std::string content, calls;
  bool operator==(const FoundCalls&) const = default;
};

void add(FoundCalls& found, const ParsedText& parsed) {
  found.content += parsed.content;
  for (const ToolCallDelta& delta : parsed.calls) {
    if (delta.name) found.calls += "\n" + std::to_string(delta.call) + *delta.name + ": ";
    found.calls += delta.arguments;
  }
}

FoundCalls read(ToolCallForm form, const std::string& text, const std::vector<size_t>& cuts) {
  ToolCallParser parser(form, "named");
  FoundCalls found;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    if (cut < begin) continue;
    add(found, parser.push(std::string_view(text).substr(begin, cut - begin)));
    begin = cut;
  }
  add(found, parser.push(std::string_view(text).substr(begin)));
  add(found, parser.finish());
  EXPECT_LE(parser.num_whole_calls(), parser.num_calls());
  return found;
}

TEST(ParserMutation, CallsAreTheSameHoweverTheyAreCut) {
  constexpr ToolCallForm kForms[] = {ToolCallForm::none,       ToolCallForm::hermes,
                                     ToolCallForm::llama_json, ToolCallForm::mistral,
                                     ToolCallForm::list,       ToolCallForm::arguments};
  for_mutations(
      {"I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"\"}}\n</tool_call>\n"
       "<tool_call>{\"arguments\": {\"b\": [1, {}]}, \"name\": \"g\"}</tool_call>\n",
       "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"a\": null}}; "
       "{\"name\": \"g\", \"parameters\": {}}",
       "text[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1.5e3}}, {\"name\": \"g\"}]",
       "[TOOL_CALLS]f{\"a\": [true, \"\\u00e4\"]}[TOOL_CALLS]g{}",
       "[{\"name\": \"f\", \"parameters\": {\"a\": -1}}, {\"name\": \"g\", \"parameters\": {}}]"},
      "\"\\[]{}:,;<>/ \n01-", [&](const std::string& text, Mutator& mutator) {
        for (const ToolCallForm form : kForms) {
          const FoundCalls whole = read(form, text, {});
          std::vector<size_t> cuts;
          for (size_t count = 1 + mutator.below(4); count > 0; --count) {
            cuts.push_back(mutator.below(text.size() + 1));
          }
          std::ranges::sort(cuts);
          EXPECT_EQ(read(form, text, cuts).content, whole.content);
          EXPECT_EQ(read(form, text, cuts).calls, whole.calls);
          std::vector<size_t> bytes(text.size());
          for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i;
          EXPECT_EQ(read(form, text, bytes), whole);
        }
      });
}

}  // namespace
}  // namespace colossal::text
