// Rewards: functions from completions to numbers, built in or external.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace colossal::tune {

// A completion as a reward sees it.
struct ScoredText {
  const nlohmann::json* columns;  // the line of its prompt
  std::string completion;
  int64_t tokens = 0;  // of the completion
};

class Reward {
 public:
  virtual ~Reward() = default;
  // Returns a number for each text; NaN: the reward does not apply. Throws Error if it fails.
  virtual std::vector<double> score(const std::vector<ScoredText>& texts) = 0;
};

struct RewardOptions {
  int64_t max_completion_length = 1;  // tokens
  int64_t overlong_tokens = 1;        // how long before that length `overlong` begins to fall
  int64_t repetition_words = 3;       // length of the runs that `repetition` counts
  double timeout = 60;                // seconds that a program or an address has for a batch
};

// Returns the names of the built-in rewards, for messages.
std::vector<std::string> built_in_rewards();

// "accuracy", "format", "length", "repetition", "overlong", "command:PROGRAM" or "http://...".
// Throws ConfigError for anything else.
//   accuracy    1 where the answer is the column "solution" (or "answer"), else 0; no such column:
//               it does not apply. The answer is what the last \boxed{} holds, else what stands
//               between <answer> and </answer>, else all of it. Numbers are compared as numbers.
//   format      1 for "<think>" ... "</think>" and then an answer, with one "<think>", else 0
//   length      -tokens / max_completion_length
//   repetition  -(share of runs of repetition_words words that have been there before)
//   overlong    0 up to overlong_tokens before the longest, then linear down to -1
//               (Yu et al. 2025, eq. 13)
std::unique_ptr<Reward> make_reward_function(const std::string& name, const RewardOptions& options);

// Whether a program or an address gives a reward, which may take its time while nothing is computed
// here.
bool is_external(const std::string& reward);

// Returns the folder of a reward "model:DIR"; nothing for another reward. A model is no function of
// a text alone: see model_reward.h.
std::optional<std::string> reward_model_folder(const std::string& reward);

// Returns a reward's name in metrics: "judge.sh" for "command:bin/judge.sh --fast", the last
// part of a folder's path for a model.
std::string metric_name(const std::string& reward);

}  // namespace colossal::tune
