// A generation of an on-policy run: the sampled completions that one or several consecutive updates
// train on, with their rewards, log-probabilities and advantages. Equal on all ranks. A checkpoint
// stores the generation if further updates on it follow.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/tune/rollout/rollout.h"

namespace colossal::tune {

// A completion and what is known about it. Fields are filled in from top to bottom: the fields
// before `rewards`, then `rewards`, then the fields after it. "Per token": one element per token of
// completion.tokens.
struct ScoredCompletion {
  int64_t position = 0;  // position of the prompt in the run's order of samples
  int64_t number = 0;    // number of the completion in the run, from 0
  Completion completion = {};
  // Per token: on how many generations the weights that sampled the token had been trained.
  std::vector<int64_t> versions = {};
  // One element per reward of the run (tune.reward). NaN: the reward does not apply, or failed.
  // Empty: the rewards have not been computed yet.
  std::vector<double> rewards = {};
  // Per token: log-probability by the policy before the first update on the generation. Empty if
  // the run does not need it.
  std::vector<double> old = {};
  // Per token: log-probability by the reference model. Empty: the run has no reference model.
  std::vector<double> reference = {};
  // Per token: output of the value head. Empty: the model has no value head.
  std::vector<double> values = {};
  double advantage = 0;  // for methods with one advantage per completion (GRPO, RLOO)
  // Per token, for PPO: advantages, and returns (advantage + value). Empty for other methods.
  std::vector<double> token_advantages = {}, returns = {};

  // Returns the sum over tokens of `old` - `reference`, an estimate of KL(policy || reference); 0
  // if `reference` is empty. If `reference` is not empty, `old` must have as many elements.
  double kl() const;
};

struct Generation {
  // The completions of one prompt form a group and are adjacent.
  std::vector<ScoredCompletion> completions = {};
  // Number of tokens that are trained on, divided by the number of all completions, including those
  // that are not trained on.
  double mean_learned = 1;
  // Metrics of the generation by name, reported at each update on it.
  std::map<std::string, double> metrics = {};
};

// Convert to JSON and back, for checkpoints; numbers are preserved bit for bit.
nlohmann::json to_json(const ScoredCompletion& completion);
nlohmann::json to_json(const std::vector<ScoredCompletion>& completions);
std::vector<ScoredCompletion> completions_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Generation& generation);
Generation generation_from_json(const nlohmann::json& json);

// Returns metrics of the lengths of completions, named completions/... and defined as in TRL, and
// the metric "entropy": Completion::entropy, summed over the completions and divided by the number
// of all their tokens, in nats. All values are 0 if there are no completions, except
// completions/clipped_ratio, which is 1.
std::map<std::string, double> length_metrics(const std::vector<ScoredCompletion>& completions);

}  // namespace colossal::tune
