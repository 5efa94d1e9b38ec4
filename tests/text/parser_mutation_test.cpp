// Damaged grammars, expressions, schemas, templates and tool calls (mutations.h). A parser accepts
// them or throws an error of its own, soon, and its result does not depend on how a text is
// divided.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/text/answer/tool_call_parser.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/grammar/automaton.h"
#include "colossal/text/grammar/gbnf.h"
#include "colossal/text/grammar/json_schema.h"
#include "colossal/text/grammar/regular_expression.h"
#include "tests/support/mutations.h"

namespace colossal::text {
namespace {

using test::for_mutations;
using test::Mutator;

// Follows some bytes of a text that may or may not belong to the grammar.
void walk(const grammar::Grammar& made, grammar::Symbol root, Mutator& mutator) {
  grammar::Automaton automaton(made, root);
  auto state = automaton.start();
  for (int i = 0; i < 12 && state != grammar::Automaton::kDead; ++i) {
    const char byte = "abc=+1(\n!\xc3\xa4\"{}:,[]"[mutator.below(18)];
    state = automaton.next(state, {&byte, 1});
  }
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
          walk(made, root, mutator);
        } catch (const ConfigError&) {
        }
      });
}

TEST(ParserMutation, ExpressionsAreReadOrRefused) {
  for_mutations({R"(^(a|b+?)*[^c-e\]x]{2,5}\d\w\s.$)", R"([\w.+-]+@[a-z0-9]+(\.[a-z]{2,})+)",
                 R"(\u00e4|\x41|\t|(?:x{3}|y{1,}){2})", R"(((((a?)b?)c?)d?){4})"},
                "\\[](){}|*+?.^$-:<>=!,0129azdws\xc3\xa4",
                [](const std::string& text, Mutator& mutator) {
                  try {
                    grammar::Grammar made;
                    const grammar::Symbol root = grammar::add_regular_expression(made, text);
                    walk(made, root, mutator);
                  } catch (const ConfigError&) {
                  }
                });
}

TEST(ParserMutation, SchemasAreReadOrRefused) {
  for_mutations(
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items":
         {"enum": [1, "x", null, true]}, "minItems": 1, "maxItems": 3}}, "required": ["a"]})",
       R"({"$defs": {"n": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"},
         {"type": "null"}]}}}}, "$ref": "#/$defs/n"})",
       R"({"type": ["string", "number"], "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"})",
       R"({"prefixItems": [{"const": {"x": [1.5e3]}}, {"type": "boolean"}], "type": "array",
         "additionalProperties": {"type": "string"}})"},
      "\"\\[]{}:,$#/ 01-.eatrue", [](const std::string& text, Mutator& mutator) {
        const auto schema =
            nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
        if (schema.is_discarded()) return;
        try {
          grammar::Grammar made;
          const grammar::Symbol root = grammar::add_json_schema(made, schema);
          walk(made, root, mutator);
        } catch (const ConfigError&) {
        }
      });
}

TEST(ParserMutation, TemplatesAreRenderedOrRefused) {
  const nlohmann::ordered_json messages = {
      {{"role", "system"}, {"content", "be brief"}},
      {{"role", "user"}, {"content", "one <two> \u00e4"}},
      {{"role", "assistant"}, {"content", "three"}, {"tool_calls", {{{"name", "f"}}}}}};
  for_mutations(
      {"{% for m in messages %}{{ '<|' + m.role + '|>' }}\n{{ m['content'] | trim }}{% endfor %}",
       "{%- set ns = namespace(found=false) -%}{%- for m in messages[1:] if m.role != 'x' -%}"
       "{%- if loop.first and not loop.last %}{% set ns.found = true %}{%- elif ns.found %}"
       "{{ loop.index0 * 2 ** 3 // 5 % 4 }}{% else %}{{ m | tojson(indent=2) }}{% endif %}{% "
       "endfor %}",
       "{% macro show(a, b=1) %}{{ a ~ b }}{% endmacro %}{{ show(messages | length, b=[1, 2, "
       "(3,)]) }}"
       "{{ messages | map(attribute='role') | join(', ') | upper | replace('A', 'b') }}",
       "{# note #}{% generation %}{{ messages[-1].content.split('r')[::-1] | list }}{% "
       "endgeneration %}"
       "{% if tools is defined and tools is not none %}{{ raise_exception('no') }}{% endif %}"
       "{{ {'a': 1, 'b': {'c': none}}.items() | list }}{{ range(3) | sum }}{{ 'x' * 5 }}"},
      "{}%#|'\"()[].,:=+-*/~<>!_ \n0129azifor", [&](const std::string& text, Mutator&) {
        try {
          ChatTemplate(text).render(messages, {});
        } catch (const jinja::TemplateError&) {
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
  ToolCallParser parser(form, "named", nullptr);
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
