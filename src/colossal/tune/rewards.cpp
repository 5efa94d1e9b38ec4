#include "colossal/tune/rewards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <sstream>

#include "colossal/base/error.h"
#include "colossal/tune/reward_address.h"
#include "colossal/tune/reward_program.h"

namespace colossal::tune {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kProgram = "command:";
constexpr const char* kAddress = "http://";
constexpr const char* kModel = "model:";

std::string trimmed(const std::string& text) {
  const char* const blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// Returns the text between the last `open` and the first `close` after it; nullopt if there is
// none.
std::optional<std::string> last_between(const std::string& text, const std::string& open,
                                        const std::string& close) {
  const size_t at = text.rfind(open);
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + open.size(), end = text.find(close, begin);
  if (end == std::string::npos) return std::nullopt;
  return text.substr(begin, end - begin);
}

std::string answer_of(const std::string& text) {
  if (const auto boxed = last_between(text, "\\boxed{", "}")) return trimmed(*boxed);
  if (const auto marked = last_between(text, "<answer>", "</answer>")) return trimmed(*marked);
  return trimmed(text);
}

std::optional<double> number_of(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_same_answer(const std::string& given, const std::string& expected) {
  const auto a = number_of(given), b = number_of(expected);
  return a && b ? *a == *b : given == expected;
}

double accuracy(const ScoredText& text, const RewardOptions&) {
  for (const char* column : {"solution", "answer"}) {
    const auto found = text.columns->find(column);
    if (found == text.columns->end() || found->is_null()) continue;
    const std::string expected =
        found->is_string() ? answer_of(found->get<std::string>()) : found->dump();
    return is_same_answer(answer_of(text.completion), expected) ? 1 : 0;
  }
  return kNone;
}

double format(const ScoredText& text, const RewardOptions&) {
  const std::string open = "<think>", close = "</think>";
  const std::string& all = text.completion;
  return all.starts_with(open) && all.find(open, open.size()) == std::string::npos &&
                 all.find(close) != std::string::npos
             ? 1
             : 0;
}

double length(const ScoredText& text, const RewardOptions& options) {
  return -static_cast<double>(text.tokens) / static_cast<double>(options.max_completion_length);
}

double repetition(const ScoredText& text, const RewardOptions& options) {
  std::istringstream stream(text.completion);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  const int64_t runs = std::ssize(words) - options.repetition_words + 1;
  if (runs <= 0) return 0;
  std::set<std::vector<std::string>> distinct;
  for (int64_t i = 0; i < runs; ++i) {
    distinct.emplace(words.begin() + i, words.begin() + i + options.repetition_words);
  }
  return static_cast<double>(distinct.size()) / static_cast<double>(runs) - 1;
}

double overlong(const ScoredText& text, const RewardOptions& options) {
  const int64_t free = options.max_completion_length - options.overlong_tokens;
  if (text.tokens <= free) return 0;
  if (text.tokens > options.max_completion_length) return -1;
  return static_cast<double>(free - text.tokens) / static_cast<double>(options.overlong_tokens);
}

using ScoreText = double (*)(const ScoredText&, const RewardOptions&);

const std::vector<std::pair<std::string, ScoreText>>& by_name() {
  static const std::vector<std::pair<std::string, ScoreText>> all{{"accuracy", accuracy},
                                                                  {"format", format},
                                                                  {"length", length},
                                                                  {"repetition", repetition},
                                                                  {"overlong", overlong}};
  return all;
}

class BuiltIn final : public Reward {
 public:
  BuiltIn(ScoreText score, const RewardOptions& options) : score_(score), options_(options) {}
  std::vector<double> score(const std::vector<ScoredText>& texts) override {
    std::vector<double> scores;
    for (const ScoredText& text : texts) scores.push_back(score_(text, options_));
    return scores;
  }

 private:
  ScoreText score_;
  RewardOptions options_;
};

}  // namespace

std::vector<std::string> built_in_rewards() {
  std::vector<std::string> names;
  for (const auto& [name, score] : by_name()) names.push_back(name);
  return names;
}

std::unique_ptr<Reward> make_reward_function(const std::string& name,
                                             const RewardOptions& options) {
  for (const auto& [known, score] : by_name()) {
    if (known == name) return std::make_unique<BuiltIn>(score, options);
  }
  if (name.starts_with(kProgram)) {
    return make_reward_program(name.substr(std::string(kProgram).size()), options.timeout);
  }
  if (name.starts_with(kAddress)) return make_reward_address(name, options.timeout);
  throw ConfigError(
      fmt::format("tune.reward = \"{}\": there is no such reward; use {}, \"model:DIR\", "
                  "\"command:PROGRAM\" or \"http://HOST:PORT/PATH\"",
                  name, fmt::join(built_in_rewards(), ", ")));
}

bool is_external(const std::string& reward) {
  return reward.starts_with(kProgram) || reward.starts_with(kAddress);
}

std::optional<std::string> reward_model_folder(const std::string& reward) {
  if (!reward.starts_with(kModel)) return std::nullopt;
  return reward.substr(std::string(kModel).size());
}

std::string metric_name(const std::string& reward) {
  if (const auto folder = reward_model_folder(reward)) {
    const std::filesystem::path path(*folder);
    return (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  if (reward.starts_with(kAddress)) return reward.substr(std::string(kAddress).size());
  if (!reward.starts_with(kProgram)) return reward;
  const std::string program = reward.substr(std::string(kProgram).size());
  return std::filesystem::path(program.substr(0, program.find(' '))).filename().string();
}

}  // namespace colossal::tune
