#include "colossal/tune/rewards/rewards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "colossal/base/error.h"
#include "colossal/tune/rewards/math_answer.h"
#include "colossal/tune/rewards/reward_address.h"
#include "colossal/tune/rewards/reward_program.h"

namespace colossal::tune {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kProgram = "command:";
constexpr const char* kAddress = "http://";
constexpr const char* kModel = "model:";

// A name for metrics and what it names: "polite" and "command:./judge" for
// "polite=command:./judge". The name is empty if there is none.
struct NamedReward {
  std::string name, source;
};

NamedReward parse_name(const std::string& reward) {
  const size_t equals = reward.find('=');
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  if (equals == std::string::npos || equals == 0 ||
      !std::all_of(reward.begin(), reward.begin() + static_cast<int64_t>(equals), is_of_name)) {
    return {"", reward};
  }
  return {reward.substr(0, equals), reward.substr(equals + 1)};
}

double accuracy(const ScoredText& text, const RewardOptions&) {
  for (const char* column : {"solution", "answer"}) {
    const auto found = text.columns->find(column);
    if (found == text.columns->end() || found->is_null()) continue;
    const std::string expected =
        found->is_string() ? find_answer(found->get<std::string>()) : found->dump();
    return is_same_answer(find_answer(text.completion), expected) ? 1 : 0;
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

// Returns the name of the folder; of a checkpoint, DIR/step-000060, that of DIR.
std::string name_of_folder(const std::string& folder) {
  std::filesystem::path path(folder);
  if (!path.has_filename()) path = path.parent_path();
  const bool is_checkpoint = path.filename().string().starts_with("step-");
  if (is_checkpoint && path.parent_path().has_filename()) path = path.parent_path();
  return path.filename().string();
}

// Returns the name of the program's file: judge.py for "python3 -u bin/judge.py --fast".
std::string name_of_program(const std::string& command) {
  constexpr std::string_view kInterpreters[] = {"sh",      "bash", "dash", "env",  "python",
                                                "python3", "node", "perl", "ruby", "nice"};
  std::istringstream words(command);
  std::string first;
  for (std::string word; words >> word;) {
    const std::string name = std::filesystem::path(word).filename().string();
    if (first.empty()) first = name;
    const bool is_interpreter = std::ranges::find(kInterpreters, name) != std::end(kInterpreters);
    // Not what follows an option: that may be its argument, or code (sh -c ...).
    if (word.starts_with('-') && word != "-u") break;
    if (!is_interpreter && word != "-u") return name;
  }
  return first;
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

std::unique_ptr<Reward> make_reward_function(const std::string& reward,
                                             const RewardOptions& options) {
  const std::string source = parse_name(reward).source;
  for (const auto& [known, score] : by_name()) {
    if (known == source) return std::make_unique<BuiltIn>(score, options);
  }
  if (source.starts_with(kProgram)) {
    return make_reward_program(source.substr(std::string(kProgram).size()), options.timeout);
  }
  if (source.starts_with(kAddress)) return make_reward_address(source, options.timeout);
  throw ConfigError(
      fmt::format("tune.reward = \"{}\": there is no such reward; use {}, \"model:DIR\", "
                  "\"command:PROGRAM\" or \"http://HOST:PORT/PATH\"",
                  reward, fmt::join(built_in_rewards(), ", ")));
}

bool is_external(const std::string& reward) {
  const auto named = parse_name(reward);
  return named.source.starts_with(kProgram) || named.source.starts_with(kAddress);
}

std::optional<std::string> reward_model_folder(const std::string& reward) {
  const std::string source = parse_name(reward).source;
  if (!source.starts_with(kModel)) return std::nullopt;
  return source.substr(std::string(kModel).size());
}

std::string metric_name(const std::string& reward) {
  const auto [name, source] = parse_name(reward);
  if (!name.empty()) return name;
  if (const auto folder = reward_model_folder(source)) return name_of_folder(*folder);
  if (source.starts_with(kAddress)) return source.substr(std::string(kAddress).size());
  if (!source.starts_with(kProgram)) return source;
  return name_of_program(source.substr(std::string(kProgram).size()));
}

}  // namespace colossal::tune
