// Compares grammars with other matchers: std::regex, and the JSON parser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "colossal/text/grammar/automaton.h"
#include "colossal/text/grammar/gbnf.h"
#include "colossal/text/grammar/json_schema.h"
#include "colossal/text/grammar/regular_expression.h"
#include "colossal/text/utf8.h"
#include "tests/support/mutations.h"
#include "tests/text/grammar_texts.h"

namespace colossal::text::grammar {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

Automaton of_expression(std::string_view expression) {
  Grammar grammar;
  const Symbol root = add_regular_expression(grammar, expression);
  return Automaton(grammar, root);
}

Automaton of_schema(const char* schema) {
  Grammar grammar;
  const Symbol root = add_json_schema(grammar, Json::parse(schema));
  return Automaton(grammar, root);
}

bool matches(Automaton& automaton, std::string_view text) {
  const Automaton::State state = automaton.next(automaton.start(), text);
  return state != Automaton::kDead && automaton.may_end(state);
}

TEST(GrammarExpression, MatchesWhatStandardExpressionsMatch) {
  std::mt19937 random(1);
  for (const char* expression :
       {"a*b", "(a|b)*c", "(a*)*b", "a{2,3}b?", "[^a]+", "(ab|a)(c|bc)", "[a-c]{2}", "a+?b", "",
        "(|a)b", "a{0,2}", "((a|b)(b|c)){2}", "[b-]+", "a{2,}", "(a?){3}c"}) {
    Automaton ours = of_expression(expression);
    const std::regex theirs(expression);
    for (int i = 0; i < 500; ++i) {
      std::string text;
      for (auto length = random() % 7; length > 0; --length) text += "abc-"[random() % 4];
      ASSERT_EQ(matches(ours, text), std::regex_match(text, theirs)) << expression << ": " << text;
    }
  }
}

Automaton of_gbnf(std::string_view text) {
  Grammar grammar;
  const Symbol root = add_gbnf(grammar, text);
  return Automaton(grammar, root);
}

TEST(GrammarGbnf, RefusesBytesThatAreNoText) {
  for (const char* text : {"root ::= \"\xc3", "root ::= [\xf0\x9f", "root ::= \"a\xff\""}) {
    try {
      of_gbnf(text);
      ADD_FAILURE() << "accepted";
    } catch (const GrammarError& error) {
      EXPECT_THAT(error.what(), HasSubstr("UTF-8"));
    }
  }
}

TEST(GrammarGbnf, ReadsWhatLlamaCppReads) {
  Automaton arithmetic = of_gbnf(R"gbnf(# sums
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident
        | num
        | "(" ws expr ")" ws   # within
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf");
  EXPECT_TRUE(matches(arithmetic, "a+(b *12)=7\n"));
  EXPECT_TRUE(matches(arithmetic, "x=1\ny -2= z\n"));
  EXPECT_FALSE(matches(arithmetic, "a+=1\n"));
  EXPECT_FALSE(matches(arithmetic, "(a=1\n"));
  Automaton counted =
      of_gbnf("root ::= \"a\"{2} \"bc\"{1,} [^x-z\\]]{0,2} . \"\\x21\\u00e4\\\"\"?");
  EXPECT_TRUE(matches(counted, "aabcbcq]d!ä\"") == false);
  EXPECT_TRUE(matches(counted, "aabcbcqd!ä\""));
  EXPECT_TRUE(matches(counted, "aabcd"));
  EXPECT_FALSE(matches(counted, "abcd"));
  Automaton alternatives = of_gbnf("root ::=\n \"a\" |\n \"b\"\n | other\nother ::= \"c\"");
  for (const char* text : {"a", "b", "c"}) EXPECT_TRUE(matches(alternatives, text));
}

TEST(GrammarGbnf, NamesWhatIsWrong) {
  const auto message = [](std::string_view text) {
    try {
      of_gbnf(text);
    } catch (const GrammarError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message("root ::= a"), HasSubstr("no rule \"a\""));
  EXPECT_THAT(message("a ::= \"a\""), HasSubstr("no rule \"root\""));
  EXPECT_THAT(message("root ::= \"a\"\nroot ::= \"b\""), HasSubstr("second rule"));
  EXPECT_THAT(message("root ::= root \"a\" | \"b\""), HasSubstr("begins with itself"));
  EXPECT_THAT(message("root ::= e a\na ::= e root\ne ::= \"\" | \"x\""),
              HasSubstr("begins with itself"));
  EXPECT_THAT(message("\nroot = \"a\""), HasSubstr("line 2"));
  EXPECT_THAT(message("root ::= \"a"), HasSubstr("an end"));
  EXPECT_THAT(message("root ::= (\"a\""), HasSubstr("without ')'"));
  EXPECT_THAT(message("root ::= \"a\" )"), HasSubstr("unexpected"));
  EXPECT_THAT(message("root ::= [b-a]"), HasSubstr("range"));
  EXPECT_THAT(message("root ::= \"a\"{3,1}"), HasSubstr("below its start"));
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const GrammarError& error) {
    return error.what();
  }
  return "none";
}

// Chains of rules, in either order, are followed only once.
TEST(GrammarGbnf, LongChainsOfRulesAreReadInTimeOfTheirLength) {
  constexpr int kRules = 2500;
  for (const bool backwards : {false, true}) {
    for (const bool is_circle : {false, true}) {
      std::vector<std::string> lines;
      for (int i = 0; i < kRules; ++i) {
        const std::string last = is_circle ? "r0" : "\"b\"";
        const std::string next = i + 1 < kRules ? "r" + std::to_string(i + 1) : last;
        lines.push_back(fmt::format("r{} ::= \"a\"? {}\n", i, next));
      }
      if (backwards) std::ranges::reverse(lines);
      std::string text = "root ::= \"c\" r0\n";
      for (const std::string& line : lines) text += line;
      const double before = test::computing_seconds();
      EXPECT_THAT(error_of([&] { of_gbnf(text); }),
                  HasSubstr(is_circle ? "begins with itself" : "none"));
      EXPECT_LT(test::computing_seconds() - before, 1);
    }
  }
}

TEST(GrammarGbnf, OnlyNamedRulesMayNotBeginWithThemselves) {
  Automaton automaton = of_gbnf("root ::= (\"a\"?)* x \"c\"\nx ::= (\"b\"*)* | \"d\" x");
  for (const char* text : {"c", "aac", "abbc", "ddbc"})
    EXPECT_TRUE(matches(automaton, text)) << text;
  EXPECT_FALSE(matches(automaton, "ba"));
  EXPECT_THAT(error_of([] { of_gbnf("root ::= \"a\"? (x | \"b\")\nx ::= (root) \"c\""); }),
              HasSubstr("begins with itself"));
}

TEST(GrammarExpression, RepetitionsInOneSequenceAreLimited) {
  std::string many;
  for (int i = 0; i < 8000; ++i) many += "a{9999}";
  const double before = test::computing_seconds();
  EXPECT_THAT(error_of([&] { of_expression(many); }), HasSubstr("repetitions multiply"));
  EXPECT_LT(test::computing_seconds() - before, 1);
}

// A state with many deep stacks: each byte of the text visits all of them.
TEST(GrammarExpression, WorkIsLimited) {
  const std::string expression =
      "(?:" + std::string(40, '(') + "(?:a|b){0,900}" + std::string(40, ')') + ")*c";
  const double before = test::computing_seconds();
  error_of([&] {
    Automaton automaton = of_expression(expression);
    std::mt19937 random(1);
    automaton.begin_work();
    Automaton::State state = automaton.start();
    for (int i = 0; i < 1'000'000; ++i) {
      state = automaton.next(state, static_cast<unsigned char>(random() % 2 ? 'a' : 'b'));
    }
  });
  EXPECT_LT(test::computing_seconds() - before, 5);
}

TEST(GrammarExpression, ClassesAreOfCharactersNotBytes) {
  Automaton automaton = of_expression("[ä-ü日-本\\u00df]|[^\\x00-\\x7fä-ü日-本ß]x");
  for (char32_t character = 0x80; character < 0x110000; character += 1 + character / 500) {
    if (character >= 0xD800 && character < 0xE000) continue;
    const bool within = (character >= U'ä' && character <= U'ü') ||
                        (character >= U'日' && character <= U'本') || character == U'ß';
    std::string text;
    append_utf8(text, character);
    ASSERT_EQ(matches(automaton, text), within) << text;
    ASSERT_EQ(matches(automaton, text + "x"), !within) << text;
  }
  EXPECT_FALSE(matches(automaton, "a"));
  EXPECT_FALSE(matches(automaton, "\xC3"));
}

TEST(GrammarExpression, RefusesWhatItDoesNotKnow) {
  for (const auto& [expression, what] :
       std::map<std::string, std::string>{{"(?=a)", "(?="},
                                          {"(a)\\1", "\\1"},
                                          {"a^b", "'^' or '$'"},
                                          {"\\p{L}", "\\p"},
                                          {"(a", "without ')'"},
                                          {"a)", "')'"},
                                          {"*a", "of nothing"},
                                          {"a**", "of a repetition"},
                                          {"[b-a]", "before it begins"},
                                          {"a{3,2}", "below its start"},
                                          {"[a", "an end"}}) {
    try {
      of_expression(expression);
      ADD_FAILURE() << expression;
    } catch (const GrammarError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what)) << expression;
    }
  }
}

TEST(GrammarSchema, WritesOnlyWhatFits) {
  std::mt19937 random(2);
  Automaton automaton = of_schema(R"({
    "$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"},
                       "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                       "required": ["value", "next"]}},
    "type": "object",
    "properties": {"id": {"type": "string", "pattern": "^[A-Z]{2}\\d+$"}, "note": {"type": "string", "minLength": 1},
                   "list": {"$ref": "#/$defs/node"}, "pair": {"prefixItems": [{"const": "é"}, {"type": "integer"}], "items": false, "minItems": 2, "type": "array"}},
    "required": ["id", "pair"]})");
  for (int i = 0; i < 300; ++i) {
    const std::string text = draw(automaton, random, 0);
    const Json json = Json::parse(text, nullptr, false);
    ASSERT_TRUE(json.is_object()) << text;
    ASSERT_TRUE(std::regex_match(json["id"].get<std::string>(), std::regex("[A-Z]{2}\\d+")))
        << text;
    ASSERT_EQ(json["pair"][0], "é");
    ASSERT_TRUE(json["pair"][1].is_number_integer());
    if (json.contains("note")) {
      ASSERT_FALSE(json["note"].get<std::string>().empty());
    }
    if (json.contains("list")) {
      ASSERT_TRUE(json["list"]["value"].is_number());
    }
  }
}

TEST(GrammarSchema, AnyObjectIsJson) {
  std::mt19937 random(3);
  Grammar grammar;
  const Symbol root = add_json_object(grammar);
  Automaton automaton(grammar, root);
  for (int i = 0; i < 200; ++i) {
    const std::string text = draw(automaton, random, 20);
    ASSERT_TRUE(Json::parse(text, nullptr, false).is_object()) << text;
  }
  for (const char* text :
       {R"({"a": [1, -2.5e3, "x\n\u00e9", true, null, {}], "b": {"c": []}})", "{ }"}) {
    EXPECT_TRUE(matches(automaton, text)) << text;
  }
  for (const char* text :
       {"[]", "{,}", "{\"a\"}", "{\"a\": 01}", "{\"a\": \"\n\"}", "{\"a\": tru}"}) {
    EXPECT_FALSE(matches(automaton, text)) << text;
  }
}

TEST(GrammarSchema, TakesPropertiesInOrderAndNoOthers) {
  Automaton automaton = of_schema(
      R"({"properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"enum": ["x", 1]}}, "required": ["b"]})");
  for (const char* text : {R"({"b": true})", R"({"a":1,"b":false,"c":"x"})",
                           R"({ "b" : true , "c" : 1 })", "{\n  \"b\": true\n}"}) {
    EXPECT_TRUE(matches(automaton, text)) << text;
  }
  for (const char* text : {"{}", R"({"a": 1})", R"({"b": true, "a": 1})", R"({"b": true, "d": 1})",
                           R"({"b": true,})", R"({"b": true, "c": "y"})"}) {
    EXPECT_FALSE(matches(automaton, text)) << text;
  }
}

// ^ and $ belong to one alternative, as in (^a)|(b$).
TEST(GrammarSchema, AnchorsEachAlternativeOfAPattern) {
  Automaton automaton = of_schema(R"({"type": "string", "pattern": "^a|b$|[|]c\\$"})");
  for (const char* text : {R"("a")", R"("ax")", R"("xb")", R"("x|c$y")"}) {
    EXPECT_TRUE(matches(automaton, text)) << text;
  }
  for (const char* text : {R"("xa")", R"("bx")", R"("c$")", R"("|c")"}) {
    EXPECT_FALSE(matches(automaton, text)) << text;
  }
}

TEST(GrammarSchema, ATypeBesideValuesOrAlternativesHolds) {
  Automaton values = of_schema(R"({"type": ["integer", "null"], "enum": ["x", 1, 2.5, null]})");
  EXPECT_TRUE(matches(values, "1"));
  EXPECT_TRUE(matches(values, "null"));
  EXPECT_FALSE(matches(values, "\"x\""));
  EXPECT_FALSE(matches(values, "2.5"));
  Automaton alternatives = of_schema(
      R"({"type": "string", "anyOf": [{"maxLength": 1}, {"type": "string", "minLength": 3}]})");
  EXPECT_TRUE(matches(alternatives, "\"x\""));
  EXPECT_TRUE(matches(alternatives, "\"xyz\""));
  EXPECT_FALSE(matches(alternatives, "\"xy\""));
  EXPECT_FALSE(matches(alternatives, "1"));
}

TEST(GrammarSchema, RefusesWhatItWouldNotKeep) {
  for (
      const auto& [schema, what] : std::map<std::string, std::string>{
          {R"({"not": {}})", "\"not\""},
          {R"({"if": {}, "then": {}})", "\"if\""},
          {R"({"contains": {}})", "\"contains\""},
          {R"({"dependentRequired": {}})", "\"dependentRequired\""},
          {R"({"unevaluatedProperties": false})", "\"unevaluatedProperties\""},
          {R"({"$ref": "http://x"})", "leads out"},
          {R"({"$ref": "#/nowhere"})", "does not exist"},
          {R"({"type": "thing"})", "thing"},
          {R"_({"type": "string", "pattern": "(?=x)"})_", "(?="},
          {R"({"type": "string", "format": "regex"})", "\"format\" \"regex\""},
          {R"({"type": "number", "multipleOf": 0.1})", "\"multipleOf\""},
          {R"({"type": "number", "minimum": 0.1234567890123456})", "\"minimum\""},
          {R"({"type": "integer", "minimum": "3"})", "\"minimum\""},
          {R"({"type": "array", "uniqueItems": true})", "\"uniqueItems\""},
          {R"({"type": "object", "minProperties": 2})", "\"minProperties\""},
          {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "\"oneOf\""},
          {R"({"oneOf": [{"maxLength": 3}, {"minLength": 3}]})", "\"oneOf\""},
          {R"({"type": "object", "properties": {}, "additionalProperties": false, "required": ["x"]})",
           "no text fits"},
          {R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "no text fits"},
          {R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "no text fits"},
          {R"({"type": "integer", "minimum": 3, "exclusiveMaximum": 3})", "no text fits"},
          {"false", "no text fits"},
          {R"({"$ref": "#"})", "itself"},
          {R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}}, "$ref": "#/$defs/a"})",
           "itself"},
          {R"({"type": "string", "enum": [1, null]})", "no text fits"},
          {R"({"type": ["string"], "unknown": 1})", "\"unknown\""},
          {R"({"type": ["string", 1]})", "not a name"},
          {"[]", "not an object"}}) {
    try {
      of_schema(schema.c_str());
      ADD_FAILURE() << schema;
    } catch (const GrammarError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what)) << schema;
    }
  }
}

TEST(GrammarSchema, DepthIsLimited) {
  std::string schema = "{}";
  for (int i = 0; i < 70; ++i) schema = R"({"type": "array", "items": )" + schema + "}";
  EXPECT_THROW(of_schema(schema.c_str()), GrammarError);
  // What is nested too deeply is no text of the grammar; what is not can be completed.
  Automaton automaton = of_schema("{}");
  EXPECT_EQ(automaton.next(automaton.start(), std::string(100'000, '[')), Automaton::kDead);
  Automaton::State state = automaton.start();
  size_t depth = 0;
  for (; automaton.next(state, '[') != Automaton::kDead; ++depth)
    state = automaton.next(state, '[');
  EXPECT_GT(depth, 64u);
  state = automaton.next(state, std::string(depth, ']'));
  ASSERT_NE(state, Automaton::kDead);
  EXPECT_TRUE(automaton.may_end(state));
}

}  // namespace
}  // namespace colossal::text::grammar
