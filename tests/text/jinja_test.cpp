// Properties of templates that the comparison with `transformers` does not cover: limits and
// messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "colossal/text/jinja/template.h"
#include "tests/support/mutations.h"

namespace colossal::text::jinja {
namespace {

using testing::HasSubstr;

Value context(const char* json = "{}") {
  return Value::from_json(nlohmann::ordered_json::parse(json));
}

std::string error_of(const std::string& source, const Limits& limits = {}) {
  try {
    Template(source).render(context(), limits);
  } catch (const TemplateError& error) {
    return error.what();
  }
  return "none";
}

TEST(Jinja, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("a\n\n{{ b.c }}"), "line 3: 'b' is undefined");
  EXPECT_EQ(error_of("a\n{% if x %}"),
            "line 2: expected {% endif %}, found the end of the template");
  EXPECT_EQ(error_of("{{ 'a' | uper }}"), "line 1: there is no filter 'uper'");
  EXPECT_EQ(error_of("\n{% include 'x' %}"), "line 2: unexpected tag {% include %}");
  EXPECT_EQ(error_of("{{ 1 +\n * }}"), "line 2: expected an expression, found '*'");
}

TEST(Jinja, ARefusalIsTheTemplatesOwnWords) {
  EXPECT_EQ(error_of("\n{{ raise_exception('no tools here') }}"), "no tools here");
}

TEST(Jinja, StepsAreLimited) {
  EXPECT_THAT(
      error_of("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"),
      HasSubstr("steps"));
  EXPECT_THAT(error_of("{% set ns = namespace(x='ab') %}{% for a in range(99999) %}"
                       "{% set ns.x = (ns.x ~ ns.x)[:1000000] %}{% endfor %}"),
              HasSubstr("steps"));
}

TEST(Jinja, OutputIsLimited) {
  EXPECT_THAT(
      error_of("{% for a in range(1000) %}{{ 'a' * 10 }}{% endfor %}", {.output_bytes = 5000}),
      HasSubstr("longer than"));
  EXPECT_THAT(error_of("{{ 'a' * 99999999999 }}"), HasSubstr("longer than 16 MiB"));
  EXPECT_THAT(error_of("{{ [1] * 99999999999 }}"), HasSubstr("longer than 16 MiB"));
}

TEST(Jinja, DepthIsLimited) {
  EXPECT_THAT(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("deeper"));
  const std::string many(100'000, '('), ends(100'000, ')'), sums = "{{ 1" + [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += "+1";
    return text;
  }() + " }}";
  EXPECT_THAT(error_of("{{ " + many + "1" + ends + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(sums), HasSubstr("too long"));
  std::string nots = "{{ ", ifs;
  for (int i = 0; i < 5000; ++i) nots += "not ", ifs += "{% if 1 %}";
  EXPECT_THAT(error_of(nots + "1 }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(ifs), HasSubstr("nested too deeply"));
}

// Small templates whose time would grow with the square of a text or a list, or whose values would
// fill memory.
TEST(Jinja, WorkIsBounded) {
  const std::string doubled =
      "{% set ns = namespace(x=[1]) %}{% for a in range(20) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}";
  const std::string pairs = "{% set d = dict(range(100000) | batch(2)) %}";
  std::string variables;
  for (int i = 0; i < 40'000; ++i) variables += "{% set a" + std::to_string(i) + "=1 %}";
  struct Case {
    std::string source, error;
  };
  const std::vector<Case> cases{
      {pairs + "{{ d | length }}", "none"},
      {pairs + "{{ d == dict(d) }}", "none"},
      {pairs + "{% for i in range(50000) %}{% if d[2 * i] %}{% endif %}{% endfor %}", "none"},
      {"{% set n = namespace(dict(range(100000) | map('string') | batch(2))) %}", "none"},
      {"{{ range(100000) | unique | list | length }}", "none"},
      {variables, "none"},
      {"{{ ('a' * 8000000).find('a' * 4000000 ~ 'b') }}", "none"},
      {"{{ ('a' * 8000000).rfind('b' ~ 'a' * 4000000) }}", "none"},
      {"{{ ('a' * 8000000).count('a' * 4000000 ~ 'b') }}", "none"},
      {"{{ ('a' * 8000000).split('a' * 4000000 ~ 'b') | length }}", "none"},
      {"{{ ('a' * 8000000).rsplit('b' ~ 'a' * 4000000) | length }}", "none"},
      {"{{ ('a' * 8000000).replace('a' * 4000000 ~ 'b', '') | length }}", "none"},
      {"{{ ('a' * 4000000 ~ 'b') in 'a' * 8000000 }}", "none"},
      {"{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a') }}", "none"},
      {"{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}", "longer than 16 MiB"},
      {"{{ ([1] * 100000) | tojson(separators=[',' * 1000000, ':']) }}", "longer than 16 MiB"},
      {"{{ ([1] * 100000) | join('b' * 1000000) }}", "longer than 16 MiB"},
      {"{{ 'a'.ljust(1000000, 'b' * 1000000) }}", "one character"},
      {"{{ ([[1]] * 1000) | map('batch', 1000000, 0) | list | length }}", "steps"},
      {"{{ (['A' * 1000000] * 16) | sort | length }}", "steps"},
      {"{% set f = ('a' * 1000000).upper %}{% for i in range(99999) %}{% set x = f() %}{% endfor "
       "%}",
       "steps"},
      {doubled + "{% for i in range(9) %}{% set s = ns.x ~ '' %}{% endfor %}", "steps"},
      {doubled + "{{ [1, 2, 3, 4, 5, 6, 7, 8] | select('eq', ns.x) | list }}", "steps"},
      {doubled + "{% for i in range(9999) %}{% if ns.x is eq(ns.x) %}{% endif %}{% endfor %}",
       "steps"},
      {doubled + "{{ [ns.x, ns.x] | select('upper') | list }}", "steps"},
      {"{{ ('a' * 8000000) | list | length }}", "steps"},
      {"{% macro f() %}{% endmacro %}{% set l = range(100000) %}"
       "{% for i in range(9999) %}{{ f(*l) }}{% endfor %}",
       "steps"},
      {"{{ {[1]: 2} }}", "cannot be a key"},
  };
  for (const auto& [source, error] : cases) {
    const double before = test::computing_seconds();
    EXPECT_THAT(error_of(source), HasSubstr(error)) << source.substr(0, 200);
    EXPECT_LT(test::computing_seconds() - before, 1) << source.substr(0, 200);
  }
}

// Each round doubles the text that would be written, although nothing is copied.
TEST(Jinja, ValuesThatHoldEachOtherAreLimited) {
  EXPECT_THAT(error_of("{% set ns = namespace(x=[]) %}{% for a in range(90) %}"
                       "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"),
              HasSubstr("holds more than"));
  EXPECT_THAT(error_of("{% set ns = namespace(x=[]) %}{% for a in range(900) %}"
                       "{% set ns.x = [ns.x] %}{% endfor %}"),
              HasSubstr("nested deeper"));
  EXPECT_EQ(error_of("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns.x }}"), "none");
}

TEST(Jinja, CutTemplatesAreRefusedNotRead) {
  const std::string whole =
      "{% macro f(a, b=1) %}{{ a ~ b | upper }}{% endmacro %}{% for x, y in {'a': [1, "
      "2][::-1]}.items() "
      "if x is not none %}{{ f(x, b=y) if loop.first else 'é\\n' }}{# c #}{% else %}{% endfor %}"
      "{% set ns.x %}{% raw %}{{{% endraw %}{% endset %}";
  for (size_t length = 0; length < whole.size(); ++length) {
    error_of(whole.substr(0, length));
    error_of(whole.substr(length));
  }
  EXPECT_THAT(error_of("\xFF"), HasSubstr("not UTF-8"));
}

}  // namespace
}  // namespace colossal::text::jinja
