// Grammars of JSON schemas against tables of valid and invalid values, and against the validator
// jsonschema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "colossal/text/grammar/automaton.h"
#include "colossal/text/grammar/json_schema.h"
#include "tests/support/mutations.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/grammar_texts.h"

namespace colossal::text::grammar {
namespace {

using Json = nlohmann::ordered_json;

Automaton of_schema(const Json& schema) {
  Grammar grammar;
  const Symbol root = add_json_schema(grammar, schema);
  return Automaton(grammar, root);
}

bool matches(Automaton& automaton, std::string_view text) {
  const Automaton::State state = automaton.next(automaton.start(), text);
  return state != Automaton::kDead && automaton.may_end(state);
}

struct Case {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

TEST(Schema, TakesValidTextsAndNoOthers) {
  for (
      const Case& each : std::vector<Case>{
          // Objects.
          {R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a": 1})"}},
          {R"({"type": "object", "required": ["a"]})",
           {R"({"a": 1})", R"({"a": 1, "b": 2})"},
           {"{}", R"({"b": 1})"}},
          {R"({"type": ["object", "null"], "required": ["a"]})", {"null", R"({"a": {}})"}, {"{}"}},
          {R"({"type": "object", "required": ["a"], "additionalProperties": {"type": "integer"}})",
           {R"({"a": 1, "b": 2})"},
           {R"({"a": "x"})", R"({"a": 1, "b": "x"})", "{}"}},
          {R"({"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
           {"{}", R"({"a": null, "b": 1})", R"({"b": 1})", R"({"aa": 1, "": 2})"},
           {R"({"b": 1, "a": 2})", R"({"a": 1})", R"({"b": "x"})"}},
          {R"({"patternProperties": {"^x-": {"type": "integer"}, "y$": {"minimum": 3}},
                "type": "object", "additionalProperties": false})",
           {"{}", R"({"x-": 1})", R"({"x-y": 3})", R"({"y": "s"})"},
           {R"({"x-": "s"})", R"({"x-y": 2})", R"({"a": 1})", R"({"y": 2})"}},
          {R"({"type": "object", "patternProperties": {"\\d": {"type": "null"}}})",
           {R"({"1": null})", R"({"a": 1})"},
           {R"({"1": 1})", R"({"٥": 1})"}},
          {R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 2}})",
           {"{}", R"({"ab": 1})"},
           {R"({"abc": 1})", R"({"A": 1})"}},
          {R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}})",
           {R"({"b": 1, "a": 2})"},
           {R"({"c": 1})"}},
          {R"({"properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 1, "maxProperties": 2})",
           {R"({"a": 1})", R"({"a": 1, "c": 2})", R"({"b": 1, "c": 2})"},
           {"{}", R"({"a": 1, "b": 2, "c": 3})"}},
          {R"({"type": "object", "maxProperties": 1})",
           {"{}", R"({"a": 1})"},
           {R"({"a": 1, "b": 2})"}},
          {R"({"properties": {"a": false, "b": true}})", {"{}", R"({"b": 1})"}, {R"({"a": 1})"}},
          // Lists.
          {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
           {"[1]", "[1, 2, 3]"},
           {"[]", "[1, 2, 3, 4]", "[\"a\"]"}},
          {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}]})",
           {"[]", "[1]", "[1, null]", "[1, null, \"x\"]"},
           {"[null]", "[1, 1]"}},
          {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "items": false,
                "minItems": 2})",
           {"[1, null]"},
           {"[1]", "[1, null, 1]"}},
          {R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}})",
           {"[]", "[1]", "[1, \"a\"]"},
           {"[\"a\"]", "[1, 1]"}},
          {R"({"type": "array", "prefixItems": [{}, {}, {}], "minItems": 1, "maxItems": 2})",
           {"[1]", "[1, 2]"},
           {"[]", "[1, 2, 3]"}},
          {R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b", "c"]}, "minItems": 2})",
           {R"(["a", "b"])", R"(["c", "a", "b"])"},
           {R"(["a"])", R"(["a", "a"])", R"(["a", "b", "c", "a"])"}},
          {R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[{}]"}, {"[1, 2]"}},
          // Numbers.
          {R"({"type": "integer", "minimum": -12, "maximum": 105})",
           {"-12", "-9", "0", "99", "105"},
           {"-13", "106", "1000", "1.0", "-0", "01", "-100"}},
          {R"({"type": "integer", "exclusiveMinimum": 0, "multipleOf": 15})",
           {"15", "30", "150000"},
           {"0", "-15", "16", "5"}},
          {R"({"type": "integer", "minimum": 0.5})", {"1", "123456789012345678"}, {"0", "-1"}},
          {R"({"type": "integer", "minimum": 0, "exclusiveMinimum": true})", {"1"}, {"0"}},
          {R"({"type": "number", "minimum": -1.5, "exclusiveMaximum": 2})",
           {"-1.5", "-1.499", "0", "1.99999", "0.5", "1"},
           {"-1.51", "2", "2.0", "1e9", "-2", "10", "-0.0"}},
          {R"({"type": "number", "exclusiveMinimum": 0, "maximum": 1})",
           {"0.001", "1", "1.0", "0.10"},
           {"0", "0.0", "1.01", "-0.5"}},
          {R"({"type": "number", "minimum": 100})", {"100", "100.5", "2000"}, {"99.9", "10", "99"}},
          {R"({"type": "integer", "format": "int32"})",
           {"2147483647", "-2147483648"},
           {"2147483648"}},
          {R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})",
           {"5", "-5"},
           {"5.5"}},
          {R"({"multipleOf": 1, "type": "number"})", {"0", "-3"}, {"3.5"}},
          {R"({"multipleOf": 3, "type": "number"})", {"0", "-3", "12"}, {"1", "3.5"}},
          // Strings.
          {R"({"type": "string", "minLength": 2, "maxLength": 3})",
           {R"("ab")", R"("a\u00e9\n")", R"("日本語")", R"("\ud83d\ude00x")"},
           {R"("a")", R"("abcd")", R"("\ud83d\ude00")", R"("\ud83dx")", R"("\ude00x")"}},
          {R"({"type": "string", "maxLength": 65535})", {R"("")", R"("long")"}, {"1"}},
          {R"({"type": "string", "pattern": "^\"[\\\\\\n]\\t?é$"})",
           {R"("\"\\é")", R"("\"\n\té")"},
           {R"("\"é")", R"("é")", R"("\"\\\\é")"}},
          {R"({"type": "string", "pattern": "b"})", {R"("b")", R"("a\"b\n")"}, {R"("a")", R"("")"}},
          {R"({"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 3})",
           {R"("aa")", R"("aaa")"},
           {R"("a")", R"("aaaa")"}},
          {R"({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}], "maxLength": 3})",
           {R"("ab")", R"("bca")"},
           {R"("a")", R"("b")", R"("xaxb")"}},
          {R"({"type": "string", "pattern": "^\\S\\D[^\\w\\s]$"})",
           {R"("éa-")", R"("a\".")"},
           {R"(" a-")", R"("a5-")", R"("aaé")", "\"\u00a0a-\""}},
          {R"({"type": "string", "pattern": "^\\u0001$"})", {R"("\u0001")"}, {R"("1")"}},
          {R"({"type": "string", "format": "date"})",
           {R"("2024-02-29")", R"("0001-12-31")", R"("2000-02-29")"},
           {R"("2023-02-29")", R"("1900-02-29")", R"("0000-01-01")", R"("2024-04-31")",
            R"("2024-1-01")"}},
          {R"({"type": "string", "format": "date-time"})",
           {R"("2024-02-29T23:59:59Z")", R"("2024-01-01T00:00:00.123+05:30")"},
           {R"("2024-01-01")", R"("2024-01-01T24:00:00Z")", R"("2024-01-01T00:00:00")"}},
          {R"({"type": "string", "format": "uuid"})",
           {R"("123e4567-e89b-12d3-a456-426614174000")"},
           {R"("123e4567e89b12d3a456426614174000")"}},
          {R"({"type": "string", "format": "ipv4"})",
           {R"("192.168.0.1")"},
           {R"("256.1.1.1")", R"("01.1.1.1")"}},
          {R"({"type": "string", "format": "ipv6"})",
           {R"("::1")", R"("1:2:3:4:5:6:7:8")", R"("1::")", R"("fe80::1:2")"},
           {R"("1:2:3")", R"("1::2::3")", R"("12345::")", R"("1:2:3:4:5:6:7:8:9")"}},
          {R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})",
           {R"("https://a.b/c?d=e#f")", R"("mailto:a@b.c")", R"("urn:x:y")"},
           {R"("a b")", R"("//x")", R"("http://[a")"}},
          {R"({"type": "string", "format": "email"})",
           {R"("joe.b@a.example.com")"},
           {R"("joe")", R"("@a.b")"}},
          {R"({"type": "string", "format": "hostname"})",
           {R"("www.example.com")"},
           {R"("-a")", R"("a..b")"}},
          {R"({"type": "string", "format": "duration"})",
           {R"("P1DT2H")", R"("PT5M")", R"("P3W")"},
           {R"("P")", R"("PT")", R"("P1Y1D")", R"("1D")"}},
          {R"({"type": "string", "format": "password"})", {R"("x")"}, {"1"}},
          // Values and combinations.
          {R"({"enum": [1, "a", null, {"b": [1]}, 2.5], "type": ["number", "object"], "minimum": 2})",
           {"2.5", R"({"b":[1]})"},
           {"1", "\"a\"", "null"}},
          {R"({"const": {"a": "é"}})", {"{\"a\":\"é\"}"}, {"{}"}},
          {R"({"enum": ["ab", "a", "abc", ""]})", {R"("")", R"("ab")"}, {R"("b")", R"("abcd")"}},
          {R"({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "number", "minimum": 5}, {"type": "null"}]})",
           {"3", "5", "5.5", "null"},
           {"4", "4.5"}},
          {R"({"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}},
                          {"properties": {"kind": {"const": "b"}, "y": {"type": "integer"}}}]})",
           {R"({"kind": "a"})", R"({"kind": "b", "y": 1})"},
           {"{}", R"({"x": 1})", R"({"kind": "a", "y": 1})"}},
          {R"({"oneOf": [{"type": "object", "properties": {"a": {}}, "required": ["a"]},
                          {"type": "object", "properties": {"b": {}}, "required": ["b"]}]})",
           {R"({"a": 1})", R"({"b": 1})"},
           {"{}", R"({"a": 1, "b": 1})"}},
          {R"({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
           {R"({"a": 1})", R"({"b": 1})", R"({"a": 1, "b": 1})"},
           {"{}"}},
          {R"({"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}],
                "$defs": {"base": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}})",
           {R"({"a": 1, "b": null})"},
           {R"({"a": 1})", R"({"b": null})"}},
          {R"({"$ref": "#/$defs/a%20b", "maxLength": 1, "$defs": {"a b": {"type": "string"}}})",
           {R"("x")"},
           {R"("xy")", "1"}},
          {R"({"$defs": {"e": {"oneOf": [{"type": "integer"}, {"type": "object", "properties":
                {"l": {"$ref": "#/$defs/e"}, "op": {"enum": ["+"]}, "r": {"$ref": "#/$defs/e"}},
                "required": ["l", "op", "r"]}]}}, "$ref": "#/$defs/e"})",
           {"1", R"({"l": 1, "op": "+", "r": {"l": 2, "op": "+", "r": 3}})"},
           {R"({"l": 1})", "null"}},
          {R"({"minLength": 2, "minimum": 3, "x-note": 1, "discriminator": {}})",
           {R"("ab")", "3", "null", "[]"},
           {R"("a")", "2"}},
          {"true", {"1", "{}"}, {""}}}) {
    SCOPED_TRACE(each.schema);
    Automaton automaton = of_schema(Json::parse(each.schema));
    for (const char* text : each.valid) EXPECT_TRUE(matches(automaton, text)) << text;
    for (const char* text : each.invalid) EXPECT_FALSE(matches(automaton, text)) << text;
  }
}

// Conditions that multiply are refused, or leave long strings out; neither takes long.
TEST(SlowSchema, ExpensiveSchemasEndInTime) {
  Json many = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 400; ++i) {
    many["properties"][fmt::format("p{}", i)] = {
        {"type", "string"},
        {"pattern", fmt::format("^(a|b{{{}}}|[c-z]+){{1,50}}$", i + 1)},
        {"minLength", 40}};
  }
  Json values = {{"pattern", "^([a-z]{3}|[0-9]{2,900})*$"}, {"enum", Json::array()}};
  for (int i = 0; i < 2000; ++i) values["enum"].push_back(fmt::format("abc{:02}", i));
  for (const Json& schema :
       {many, values,
        Json{{"type", "string"}, {"pattern", "(a|b|ab){0,500}c.{0,300}d"}, {"maxLength", 5000}},
        Json{{"type", "string"}, {"format", "uri"}, {"pattern", "^https"}, {"maxLength", 100'000}},
        Json{{"type", "integer"}, {"multipleOf", 9973}, {"minimum", 5}, {"maximum", 123456789012}},
        Json{{"type", "string"}, {"maxLength", 10'000}},
        Json{{"type", "array"}, {"maxItems", 10'000}}}) {
    const double before = test::computing_seconds();
    try {
      of_schema(schema);
    } catch (const GrammarError&) {
    }
    EXPECT_LT(test::computing_seconds() - before, 10) << schema.dump().substr(0, 200);
  }
}

// Makes random schemas of the keywords that are supported, and of some that are not.
class RandomSchema {
 public:
  explicit RandomSchema(std::mt19937& random) : random_(random) {}

  Json make(int depth = 0) {
    Json schema = Json::object();
    if (below(12) == 0) return below(4) == 0 ? Json(false) : Json(true);
    const Json types = {"null", "boolean", "integer", "number", "string", "array", "object"};
    if (below(5) > 0) {
      schema["type"] = types[below(types.size())];
      if (below(6) == 0) schema["type"] = {schema["type"], types[below(types.size())]};
    }
    for (int count = below(4); count > 0; --count) add_keyword(schema, depth);
    return schema;
  }

 private:
  size_t below(size_t count) { return random_() % count; }
  Json number() {
    return below(3) == 0 ? Json(static_cast<double>(below(4000)) / 8 - 250)
                         : Json(static_cast<int>(below(300)) - 100);
  }
  Json value() {
    const Json values = {
        nullptr, true,           0,         1, 1.5, -3, "", "a", "b\"c\n", Json::array(),
        {1},     Json::object(), {{"a", 1}}};
    return values[below(values.size())];
  }
  std::string name() { return std::vector<std::string>{"a", "b", "x-c", "é", ""}[below(5)]; }
  Json pattern() {
    const Json patterns = {"^a",          "b$",     "^[a-c]{1,3}$", "\\d", "^\\w+$", "x|y",
                           "^[^\"\\n]*$", "\\s\\S", "^(a|b\\\\)+$", ".",   "^$"};
    return patterns[below(patterns.size())];
  }
  Json list(int depth) {
    Json all = Json::array();
    for (size_t count = 1 + below(3); count > 0; --count) all.push_back(make(depth + 1));
    return all;
  }

  void add_keyword(Json& schema, int depth) {
    const bool is_deep = depth > 2;
    switch (below(is_deep ? 17 : 28)) {
      case 0:
        schema["minimum"] = number();
        break;
      case 1:
        schema["maximum"] = number();
        break;
      case 2:
        schema["exclusiveMinimum"] = number();
        break;
      case 3:
        schema["exclusiveMaximum"] = number();
        break;
      case 4:
        schema["multipleOf"] = 1 + below(20);
        break;
      case 5:
        schema["minLength"] = below(4);
        break;
      case 6:
        schema["maxLength"] = below(6);
        break;
      case 7:
        schema["pattern"] = pattern();
        break;
      case 8: {
        const Json formats = {"date",     "time",     "date-time",     "uuid",
                              "email",    "ipv4",     "ipv6",          "uri",
                              "duration", "hostname", "uri-reference", "json-pointer"};
        schema["format"] = formats[below(formats.size())];
        break;
      }
      case 9:
        schema["minItems"] = below(3);
        break;
      case 10:
        schema["maxItems"] = below(4);
        break;
      case 11:
        schema["uniqueItems"] = below(2) == 0;
        break;
      case 12:
        schema["minProperties"] = below(3);
        break;
      case 13:
        schema["maxProperties"] = below(4);
        break;
      case 14:
        schema["enum"] = {value(), value(), value()};
        break;
      case 15:
        schema["const"] = value();
        break;
      case 16:
        schema["required"] = {name()};
        break;
      case 17:
        schema["items"] = make(depth + 1);
        break;
      case 18:
        schema["prefixItems"] = list(depth);
        break;
      case 19:
      case 20:
        for (size_t count = 1 + below(3); count > 0; --count) {
          schema["properties"][name()] = make(depth + 1);
        }
        break;
      case 21:
        schema["additionalProperties"] = make(depth + 1);
        break;
      case 22:
        schema["patternProperties"][pattern().get<std::string>()] = make(depth + 1);
        break;
      case 23:
        schema["propertyNames"] = {{"pattern", pattern()}};
        break;
      case 24:
        schema["anyOf"] = list(depth);
        break;
      case 25:
        schema["oneOf"] = list(depth);
        break;
      case 26:
        schema["allOf"] = list(depth);
        break;
      default:
        schema["not"] = make(depth + 1);
        break;
    }
  }

  std::mt19937& random_;
};

// Draws texts of the grammars of random schemas. Every text must be valid for jsonschema. Counts
// how many schemas were refused.
void check_random_schemas(int count, unsigned seed) {
  std::mt19937 random(seed);
  const test::TemporaryDirectory folder;
  const std::string file = (folder.path() / "texts.jsonl").string();
  std::ofstream lines(file);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    const Json schema = RandomSchema(random).make();
    const double before = test::computing_seconds();
    try {
      Automaton automaton = of_schema(schema);
      ++accepted;
      Json texts = Json::array();
      for (int draws = 0; draws < 4; ++draws) texts.push_back(draw(automaton, random, 10));
      lines << Json{{"schema", schema}, {"texts", texts}}.dump() << "\n";
    } catch (const GrammarError& error) {
      const std::string reason = error.what();
      // A refusal names a keyword, or says that nothing is valid.
      EXPECT_TRUE(reason.find('"') != std::string::npos || reason.starts_with("no text fits") ||
                  reason.find("conditions on a string") != std::string::npos)
          << reason << " " << schema;
    }
    EXPECT_LT(test::computing_seconds() - before, 5) << schema;
  }
  lines.close();
  EXPECT_GT(accepted, count / 3);
  const std::string command =
      fmt::format("'{0}/.venv/bin/python' '{0}/tests/text/schema_oracle.py' '{1}'",
                  COLOSSAL_TEST_SOURCE_DIR, file);
  EXPECT_EQ(std::system(command.c_str()), 0) << "a text is invalid";
}

TEST(Schema, TextsOfRandomSchemasAreValid) {
  check_random_schemas(300, 1);
}

TEST(SlowSchema, TextsOfTenThousandRandomSchemasAreValid) {
  check_random_schemas(10'000, 2);
}

}  // namespace
}  // namespace colossal::text::grammar
