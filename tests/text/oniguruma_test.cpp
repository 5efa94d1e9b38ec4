#include "colossal/text/tokenizer/oniguruma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/regex.h"

namespace colossal::text {
namespace {

using testing::HasSubstr;

std::string refusal_of(const std::string& expression) {
  try {
    Regex(oniguruma_to_pcre2(expression), expression);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// Returns the first match, or "none".
std::string first_match(const std::string& expression, const std::string& text) {
  RegexScratch scratch;
  const auto match = Regex(oniguruma_to_pcre2(expression), expression).search(text, 0, scratch);
  return match ? text.substr(match->begin, match->end - match->begin) : "none";
}

TEST(Oniguruma, RefusesByNameWhatHasAnotherMeaning) {
  EXPECT_THAT(refusal_of(R"(a\hb)"), HasSubstr(R"("\h")"));
  EXPECT_THAT(refusal_of(R"((a)\1)"), HasSubstr(R"("\1")"));
  EXPECT_THAT(refusal_of(R"(\bfoo)"), HasSubstr(R"("\b")"));
  EXPECT_THAT(refusal_of(R"(\X)"), HasSubstr(R"("\X")"));
  EXPECT_THAT(refusal_of(R"(\p{Han})"), HasSubstr(R"(the property "Han")"));
  EXPECT_THAT(refusal_of(R"(\p{Cn})"), HasSubstr(R"(the property "Cn")"));
  EXPECT_THAT(refusal_of(R"(\p{Mn})"), HasSubstr(R"(the property "Mn")"));
  EXPECT_THAT(refusal_of(R"(\p{L)"), HasSubstr("\\p{ without }"));
  EXPECT_THAT(refusal_of(R"(\pL)"), HasSubstr(R"(\p without {)"));
  EXPECT_THAT(refusal_of(R"((?<name>a))"), HasSubstr(R"("(?<n")"));
  EXPECT_THAT(refusal_of(R"((?m:a))"), HasSubstr(R"("(?m:")"));
  EXPECT_THAT(refusal_of("(?i)a"), HasSubstr("\"(?i)\""));
  EXPECT_THAT(refusal_of(R"([a[^bc]])"), HasSubstr("a negated class within a class"));
  EXPECT_THAT(refusal_of(R"([a-z&&[^b]])"), HasSubstr("an intersection"));
  EXPECT_THAT(refusal_of(R"([[:alpha:]])"), HasSubstr("a POSIX class"));
  EXPECT_THAT(refusal_of(R"([])"), HasSubstr("an empty class"));
  EXPECT_THAT(refusal_of(R"([a\W])"), HasSubstr("a negated set within a class"));
  EXPECT_THAT(refusal_of(R"([\d-z])"), HasSubstr("a range that begins with a set"));
  EXPECT_THAT(refusal_of(R"([a-f-z])"), HasSubstr("an ambiguous range"));
  EXPECT_THAT(refusal_of(R"(a{2}+)"), HasSubstr("a quantifier after an interval"));
  EXPECT_THAT(refusal_of(R"(a{2}?)"), HasSubstr("a quantifier after an interval"));
  EXPECT_THAT(refusal_of(R"((?i:groSS))"), HasSubstr(R"("ss" under (?i:)"));
  EXPECT_THAT(refusal_of("(?i:\u00E9)"), HasSubstr("beyond ASCII under (?i:"));
  EXPECT_THAT(refusal_of(R"((?i:\p{Lu}))"), HasSubstr("a property under (?i:"));
  EXPECT_THAT(refusal_of(R"(\xE9)"), HasSubstr("a byte that is no character"));
  EXPECT_THAT(refusal_of(R"(\x{D800})"), HasSubstr("a number that is no character"));
}

TEST(Oniguruma, RefusesWhatIsNoExpression) {
  for (const char* expression :
       {"(a", "a)", "[a", "[a-", R"([a\)", R"(\)", "*a", "a{3,2}", "[z-a]", R"(\x{)",
        R"(\x{110000})", R"(\u12)", "a{70000}", R"(\p{)", "(?", "(?<", "["}) {
    EXPECT_NE(refusal_of(expression), "accepted") << expression;
  }
  std::string deep(100000, '(');
  EXPECT_NE(refusal_of(deep + "a" + std::string(100000, ')')), "accepted");
}

TEST(Oniguruma, LaterLettersAreLetters) {
  const std::string later = "\U000323AF";  // added in Unicode 15
  EXPECT_EQ(first_match(R"(\p{L}+)", "1" + later + later), later + later);
  EXPECT_EQ(first_match(R"(\p{Lo})", later), later);
  EXPECT_EQ(first_match(R"([^\p{L}])", later + "1"), "1");
  EXPECT_EQ(first_match(R"(\P{L})", later + "1"), "1");
  EXPECT_EQ(first_match(R"(\w\W)", "1" + later + "!"), later + "!");
  EXPECT_EQ(first_match(R"(\d)", "\U00010D43"), "\U00010D43");  // of Unicode 16
}

TEST(Oniguruma, SpaceIsTheUnicodeProperty) {
  EXPECT_EQ(first_match(R"(\s)", "\u180E\u3000"), "\u3000");
  EXPECT_EQ(first_match(R"([^\S\n]+)", "\n\t\u00A0x"), "\t\u00A0");
}

TEST(Oniguruma, LinesBeginAndEndAnywhere) {
  EXPECT_EQ(first_match("^b$", "a\nb\nc"), "b");
  EXPECT_EQ(first_match(".+", "\nab\nc"), "ab");
}

TEST(Oniguruma, AClassWithinAClassAddsItsMembers) {
  EXPECT_EQ(first_match("[^a[bc]d]+", "abcdefcd"), "ef");
  EXPECT_EQ(first_match("[a[b[c]]]+", "xabcx"), "abc");
}

TEST(Oniguruma, CasesFold) {
  EXPECT_EQ(first_match("(?i:'s|'ll)x", "'Sx"), "'Sx");
  EXPECT_EQ(first_match("(?i:'s)", "'\u017F"), "'\u017F");
  EXPECT_EQ(first_match("(?i:a(?-i:b)c)", "AbC aBc"), "AbC");
}

TEST(Regex, GivesUpOnAnExponentialSearch) {
  RegexScratch scratch;
  const Regex regex(oniguruma_to_pcre2("(?:a|aa)+(?:b|c)d"), "(?:a|aa)+(?:b|c)d");
  EXPECT_THROW(regex.search(std::string(200, 'a') + "b d", 0, scratch), ConfigError);
}

TEST(Regex, NeedsNoStackForLongMatches) {
  RegexScratch scratch;
  const Regex regex("(?:a|bc)*d", "");
  const std::string text = std::string(500'000, 'a') + "d";
  EXPECT_EQ(regex.search(text, 0, scratch)->end, text.size());
}

}  // namespace
}  // namespace colossal::text
