// What no oracle tells of templates: limits, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "colossal/text/jinja/template.h"

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

// Each round doubles what would be written, though nothing is copied.
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
