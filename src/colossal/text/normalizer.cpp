#include "colossal/text/normalizer.h"

#include "colossal/text/nfc.h"

namespace colossal::text {
namespace {

std::string replace_matches(const Regex& regex, const std::string& content, std::string_view text,
                            RegexScratch& scratch) {
  std::string result;
  size_t done = 0;
  regex.for_each_match(text, scratch, [&](Regex::Match match) {
    result += text.substr(done, match.begin - done);
    result += content;
    done = match.end;
  });
  return result.append(text.substr(done));
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) {
    std::optional<Regex> regex;
    if (step.kind == NormalizerStep::Kind::replace) {
      regex.emplace(step.pattern.expression, step.pattern.name);
    }
    steps_.push_back({step.kind, step.content, std::move(regex)});
  }
}

std::string Normalizer::normalize(std::string_view text, RegexScratch& scratch) const {
  std::string normalized(text);
  for (const Step& step : steps_) normalized = apply(step, normalized, scratch);
  return normalized;
}

std::string Normalizer::apply(const Step& step, std::string_view text, RegexScratch& scratch) {
  switch (step.kind) {
    case NormalizerStep::Kind::compose:
      return compose(text);
    case NormalizerStep::Kind::prepend:
      return text.empty() ? std::string() : step.content + std::string(text);
    case NormalizerStep::Kind::replace:
      return replace_matches(*step.regex, step.content, text, scratch);
  }
  return std::string(text);
}

}  // namespace colossal::text
