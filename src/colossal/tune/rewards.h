// Rewards: functions from completions to numbers, built in or external.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace colossal::tune {

// A prompt and its completion, as passed to a reward.
struct ScoredText {
  const nlohmann::json* columns;  // fields of the prompt's line
  std::string completion;
  int64_t tokens = 0;  // number of tokens of the completion, an end token included
};

class Reward {
 public:
  virtual ~Reward() = default;
  // Returns a number per text; NaN: the reward does not apply. Throws Error on failure.
  virtual std::vector<double> score(const std::vector<ScoredText>& texts) = 0;
};

struct RewardOptions {
  int64_t max_completion_length = 1;  // tokens
  // The reward `overlong` decreases over the last overlong_tokens before max_completion_length.
  int64_t overlong_tokens = 1;
  int64_t repetition_words = 3;  // n-gram size of `repetition`, in words
  double timeout = 60;           // seconds per score() call, for a program or an HTTP service
};

// Returns the names of the built-in rewards, for error messages.
std::vector<std::string> built_in_rewards();

// Returns the reward for a name: "command:PROGRAM" (reward_program.h), "http://..."
// (reward_address.h), or a built-in one (below). Throws ConfigError for any other name.
// Not for "model:DIR": ModelReward (model_reward.h) computes that reward.
//
//   accuracy    1 if the answer equals the field "solution" (or "answer") of the prompt's line,
//               else 0; NaN without such a field. The answer is the contents of the last \boxed{},
//               else the text between <answer> and </answer>, else the whole completion. Numbers
//               are compared as numbers.
//   format      1 if the completion begins with "<think>", has no second "<think>", and contains
//               "</think>", else 0
//   length      -tokens / max_completion_length
//   repetition  -(fraction of the completion's n-grams that repeat an earlier one), where n =
//               repetition_words; 0 if there are fewer words
//   overlong    0 up to max_completion_length - overlong_tokens tokens, then linearly down to -1 at
//               max_completion_length (Yu et al. 2025, eq. 13)
std::unique_ptr<Reward> make_reward_function(const std::string& name, const RewardOptions& options);

// Whether the reward comes from a program or an HTTP address: this process can compute other things
// while it waits for the answer.
bool is_external(const std::string& reward);

// Returns DIR of a reward "model:DIR" (model_reward.h); nullopt for other rewards.
std::optional<std::string> reward_model_folder(const std::string& reward);

// Returns the name of a reward in metrics: "judge.sh" for "command:bin/judge.sh --fast", the last
// component of DIR for "model:DIR", the address without "http://" for a service, the name itself
// for a built-in reward.
std::string metric_name(const std::string& reward);

}  // namespace colossal::tune
