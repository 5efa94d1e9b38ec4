#include "colossal/data/images/braces.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "colossal/base/error.h"

namespace colossal::data {
namespace {

constexpr int64_t kMostPatterns = 1'000'000;

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return is_number ? std::optional(value) : std::nullopt;
}

void check_count(int64_t count, const std::string& pattern) {
  if (count > kMostPatterns) {
    throw ConfigError(
        fmt::format("'{}' stands for more than a million files: use * instead", pattern));
  }
}

// Returns the numbers of "0007..12"; nullopt if the text is no range.
std::optional<std::vector<std::string>> numbers(std::string_view range,
                                                const std::string& pattern) {
  const size_t dots = range.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view first = range.substr(0, dots), last = range.substr(dots + 2);
  const auto begin = whole_number(first), end = whole_number(last);
  if (!begin || !end || *begin > *end) return std::nullopt;
  const bool is_padded =
      (first.starts_with('0') && first.size() > 1) || (last.starts_with('0') && last.size() > 1);
  const size_t width = is_padded ? std::max(first.size(), last.size()) : 0;
  check_count(*end - *begin + 1, pattern);
  std::vector<std::string> texts;
  for (int64_t number = *begin; number <= *end; ++number) {
    texts.push_back(fmt::format("{:0{}}", number, width));
  }
  return texts;
}

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  const size_t open = pattern.find('{');
  const size_t close = pattern.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {pattern};
  const std::string before = pattern.substr(0, open);
  const std::string inner = pattern.substr(open + 1, close - open - 1);
  auto choices = numbers(inner, pattern);
  if (!choices && inner.find(',') != std::string::npos) choices = split_at_commas(inner);
  if (!choices) choices = {pattern.substr(open, close - open + 1)};
  std::vector<std::string> patterns;
  for (const std::string& rest : expand_braces(pattern.substr(close + 1))) {
    for (const std::string& choice : *choices) patterns.push_back(before + choice + rest);
    check_count(std::ssize(patterns), pattern);
  }
  std::ranges::sort(patterns);
  return patterns;
}

}  // namespace colossal::data
