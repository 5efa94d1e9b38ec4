// Rewards of on-policy methods: functions that give a number to a completion. Built-in rewards are
// described here; a user's program (reward_program.h), an HTTP service (reward_address.h) and a
// reward model (model_reward.h) are further kinds.
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
  const nlohmann::json* columns;  // all fields of the prompt's line in data.train; not owned
  std::string completion;         // text of the completion, without end token
  int64_t tokens = 0;             // number of tokens of the completion, an end token included
};

// Interface of rewards.
class Reward {
 public:
  virtual ~Reward() = default;
  // Returns one number per text, greater for better completions; NaN if the reward does not apply
  // to a text. Throws Error on failure.
  virtual std::vector<double> score(const std::vector<ScoredText>& texts) = 0;
};

// Settings of the rewards that need them.
struct RewardOptions {
  int64_t max_completion_length = 1;  // tokens
  // For the reward `overlong`, which decreases from 0 to -1 over the last overlong_tokens tokens
  // before max_completion_length.
  int64_t overlong_tokens = 1;
  int64_t repetition_words = 3;  // for the reward `repetition`: words per n-gram
  double timeout = 60;           // seconds per score() call, for a program or an HTTP service
};

// Returns the names of the built-in rewards, for error messages.
std::vector<std::string> built_in_rewards();

// An element of tune.reward names a reward and may begin with a name for its metrics, as in
// "polite=command:./judge". The functions below take such elements.

// Returns the reward that is named: "command:PROGRAM" (reward_program.h), "http://..."
// (reward_address.h), or one of the built-in rewards below. Throws ConfigError for any other name,
// also for "model:DIR", which ModelReward (model_reward.h) computes. The built-in rewards:
//
//   accuracy    1 if the answer in the completion equals the answer in the field "solution" (if it
//               is missing, "answer") of the prompt's line, else 0; NaN without such a field.
//               math_answer.h finds and compares answers
//   format      1 if the completion begins with "<think>", has no second "<think>", and contains
//               "</think>", else 0
//   length      -tokens / max_completion_length
//   repetition  -(fraction of the completion's n-grams that repeat an earlier one), where n =
//               repetition_words; 0 if there are fewer words
//   overlong    0 for up to max_completion_length - overlong_tokens tokens; above that, decreases
//               linearly to -1 at max_completion_length tokens (Yu et al. 2025, eq. 13)
std::unique_ptr<Reward> make_reward_function(const std::string& reward,
                                             const RewardOptions& options);

// Whether the reward comes from a program or an HTTP service, so that this process
// can compute something else until the answer arrives.
bool is_external(const std::string& reward);

// Returns DIR for "model:DIR"; nullopt for other rewards.
std::optional<std::string> reward_model_folder(const std::string& reward);

// Returns the name of the reward in metrics: the name that it begins with; without one, "judge.sh"
// for "command:sh bin/judge.sh --fast", the last component of DIR for "model:DIR" (not that of a
// checkpoint, step-N), the address without "http://" for an HTTP service, the name itself for a
// built-in reward.
std::string metric_name(const std::string& reward);

}  // namespace colossal::tune
