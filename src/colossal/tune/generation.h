// A generation: the completions that one or several consecutive updates train on, with their
// rewards and scores. Equal on all ranks. Stored in a checkpoint if updates on it are still to
// come.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/tune/rollout.h"

namespace colossal::tune {

struct ScoredCompletion {
  int64_t position = 0;  // position of the prompt in the run's order of samples
  int64_t number = 0;    // number of the completion in the run, from 0
  Completion completion = {};
  // Per token: the number of generations that the sampling weights were trained on.
  std::vector<int64_t> versions = {};
  // One per reward of the run; NaN: the reward does not apply or failed. Empty: not computed yet.
  std::vector<double> rewards = {};
  // Log-probability of each token by the policy before the first update on the generation. Empty if
  // no score needs it.
  std::vector<double> old = {};
  // Log-probability of each token by the reference. Empty: the run has none.
  std::vector<double> reference = {};
  std::vector<double> values = {};  // output of the value head at each token; empty: no value head
  double advantage = 0;
  // Per token, for methods with advantages per token (PPO); else empty.
  std::vector<double> token_advantages = {}, returns = {};

  // Returns the sum over tokens of old - reference, an estimate of KL(policy || reference); 0 if
  // there is no reference.
  double kl() const;
};

struct Generation {
  // The completions of one prompt form a group and are adjacent.
  std::vector<ScoredCompletion> completions = {};
  double mean_learned = 1;  // mean number of trained tokens per completion
  std::map<std::string, double> metrics = {};
};

// Convert to JSON and back; numbers are preserved bit for bit.
nlohmann::json to_json(const ScoredCompletion& completion);
nlohmann::json to_json(const std::vector<ScoredCompletion>& completions);
std::vector<ScoredCompletion> completions_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Generation& generation);
Generation generation_from_json(const nlohmann::json& json);

// Returns the metrics completions/* of lengths, named and defined as in TRL, and "entropy": the
// mean over tokens, in nats.
std::map<std::string, double> length_metrics(const std::vector<ScoredCompletion>& completions);

}  // namespace colossal::tune
