#include "colossal/text/grammar/schema_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "colossal/text/grammar/regular_expression.h"
#include "colossal/text/utf8.h"

namespace colossal::text::grammar {
namespace {

// Where an automaton would be too large, the strings have at most this many characters more than
// they must have; half as many if that is still too large, and so on.
constexpr int64_t kExtraCharacters = 1024;

// Days that exist, in the years 0001 to 9999.
constexpr std::string_view kDate =
    "(?:(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(?:(?:0[13578]|1[02])-(?:0[1-9]|"
    "[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|"
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
// RFC 3339, with at most the digits that clocks have.
constexpr std::string_view kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):"
    "[0-5][0-9])";
// Labels of at most 61 characters, four at most; the last one begins with a letter.
constexpr std::string_view kHost =
    "(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){0,30}\\.){0,3}[A-Za-z][A-Za-z0-9](?:-?[A-Za-z0-9]){0,29}";
constexpr std::string_view kByteNumber = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

std::string ipv4() {
  return fmt::format("(?:{0}\\.){{3}}{0}", kByteNumber);
}

// RFC 4291, without an IPv4 address at the end.
std::string ipv6() {
  const std::string_view group = "[0-9A-Fa-f]{1,4}";
  std::string all = fmt::format("(?:{0}:){{7}}{0}|(?:{0}:){{1,7}}:|:(?::{0}){{1,7}}|::", group);
  for (int before = 1; before <= 6; ++before) {
    all += fmt::format("|(?:{0}:){{{1}}}(?::{0}){{1,{2}}}", group, before, 7 - before);
  }
  return "(?:" + all + ")";
}

std::string email() {
  return fmt::format(
      "[A-Za-z0-9_+-]{{1,12}}(?:\\.[A-Za-z0-9_+-]{{1,12}}){{0,3}}@"
      "(?:[A-Za-z0-9](?:-?[A-Za-z0-9]){{0,14}}\\.){{1,3}}[A-Za-z]{{2,12}}");
}

// RFC 3986. relative: a reference, which may lack the scheme.
std::string uri(bool relative) {
  const std::string_view character = "[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}";
  const std::string rest = fmt::format("(?:\\?(?:{0}|[/?])*)?(?:#(?:{0}|[/?])*)?", character);
  const std::string host = fmt::format(
      "(?:\\[{}\\]|(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{{2}})+)(?::[1-9][0-9]{{0,3}})?", ipv6());
  const std::string path = fmt::format("(?:/(?:{0})*)*", character);
  const std::string absolute = fmt::format("/(?:(?:{0})+(?:/(?:{0})*)*)?", character);
  const std::string rootless = fmt::format("(?:{0})+(?:/(?:{0})*)*", character);
  if (!relative) {
    return fmt::format("[A-Za-z][A-Za-z0-9+.-]*:(?://{}{}|{}|{}){}", host, path, absolute, rootless,
                       rest);
  }
  // The first segment of a relative path has no colon.
  const std::string_view no_colon = "[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2}";
  return fmt::format("(?:{}|(?://{}{}|{}|(?:{})+(?:/(?:{})*)*)?{})", uri(false), host, path,
                     absolute, no_colon, character, rest);
}

// RFC 3339, appendix A.
std::string duration() {
  constexpr std::string_view kTimeOfDay = "T(?:{0}H(?:{0}M(?:{0}S)?)?|{0}M(?:{0}S)?|{0}S)";
  const std::string number = "[0-9]{1,4}";
  const std::string time = fmt::format(fmt::runtime(kTimeOfDay), number);
  return fmt::format("P(?:{0}W|(?:{0}Y(?:{0}M(?:{0}D)?)?|{0}M(?:{0}D)?|{0}D)(?:{1})?|{1})", number,
                     time);
}

const std::map<std::string_view, std::string>& expressions() {
  static const std::map<std::string_view, std::string> kExpressions{
      {"date", std::string(kDate)},
      {"time", std::string(kTime)},
      {"date-time", fmt::format("{}T{}", kDate, kTime)},
      {"duration", duration()},
      {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
      {"email", email()},
      {"idn-email", email()},
      {"hostname", std::string(kHost)},
      {"idn-hostname", std::string(kHost)},
      {"ipv4", ipv4()},
      {"ipv6", ipv6()},
      {"uri", uri(false)},
      {"iri", uri(false)},
      {"uri-reference", uri(true)},
      {"iri-reference", uri(true)},
      {"json-pointer", "(?:/(?:[^/~]|~[01])*)*"},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)"}};
  return kExpressions;
}

ByteAutomaton of_format(const std::string& format) {
  const auto found = expressions().find(format);
  if (found == expressions().end()) {
    std::string names;
    for (const auto& [name, expression] : expressions()) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    throw GrammarError(
        fmt::format("the schema has the \"format\" {:?}, which is not supported; supported: {}",
                    format.substr(0, 80), names));
  }
  Grammar grammar;
  const Symbol root = add_regular_expression(grammar, found->second);
  return ByteAutomaton::of_grammar(grammar, root);
}

}  // namespace

ByteAutomaton texts_matching(const std::string& pattern, bool any) {
  // A schema asks for the same pattern once for each value that it lists. The last one is kept.
  thread_local std::pair<std::pair<std::string, bool>, std::optional<ByteAutomaton>> last;
  if (last.second && last.first == std::pair(pattern, any)) return *last.second;
  Grammar grammar;
  const Symbol root =
      add_pattern(grammar, pattern, any ? Dialect::any_of_json_schema : Dialect::json_schema);
  last = {{pattern, any}, ByteAutomaton::of_grammar(grammar, root)};
  return *last.second;
}

bool is_annotation(std::string_view format) {
  constexpr std::string_view kNames[] = {"password", "binary",   "byte",      "path",  "text",
                                         "textarea", "markdown", "multiline", "float", "double"};
  return std::ranges::find(kNames, format) != std::end(kNames);
}

ByteAutomaton StringConditions::automaton() const {
  std::optional<ByteAutomaton> strings;
  const auto require = [&](const ByteAutomaton& automaton) {
    strings = strings ? strings->intersected(automaton) : automaton;
  };
  for (const std::string& format : formats) {
    if (!is_annotation(format)) require(of_format(format));
  }
  for (const std::string& pattern : patterns) require(texts_matching(pattern, /*any=*/false));
  if (!strings) return ByteAutomaton::of_lengths(minimum, maximum);
  if (minimum == 0 && maximum < 0) return *strings;
  if (maximum < 0) return strings->intersected(ByteAutomaton::of_lengths(minimum, maximum));
  for (int64_t extra = std::min(maximum - minimum, kExtraCharacters);; extra /= 2) {
    try {
      ByteAutomaton limited =
          strings->intersected(ByteAutomaton::of_lengths(minimum, minimum + extra));
      if (!limited.is_empty() || minimum + extra == maximum) return limited;
      return strings->intersected(ByteAutomaton::of_lengths(minimum, maximum));
    } catch (const GrammarError&) {
      if (extra == 0) throw;
    }
  }
}

bool StringConditions::admit(const std::string& text) const {
  const auto length = std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
  if (length < minimum || (maximum >= 0 && length > maximum)) return false;
  return are_lengths() || automaton().matches(text);
}

}  // namespace colossal::text::grammar
