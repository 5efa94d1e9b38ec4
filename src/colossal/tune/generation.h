// A generation: a batch of completions that a run samples and then trains on, with their rewards
// and scores. Equal on all ranks. Stored in checkpoints if several updates train on it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/tune/rollout.h"

namespace colossal::tune {

struct ScoredCompletion {
  int64_t position = 0;  // position of the prompt in the run's order of samples
  int64_t number = 0;    // number of the completion in the run
  Completion completion = {};
  // Per token: the number of generations that the sampling weights were trained on.
  std::vector<int64_t> versions = {};
  std::vector<double> rewards = {};  // one per reward of the run; NaN: the reward does not apply
  // Log-probability of each token by the policy before the first update on the generation; may be
  // empty.
  std::vector<double> old = {};
  // Log-probability of each token by the reference; may be empty.
  std::vector<double> reference = {};
  std::vector<double> values = {};  // output of the value head at each token; empty: no value head
  double advantage = 0;
  std::vector<double> token_advantages = {}, returns = {};  // for methods with advantages per token

  // Returns the sum over tokens of old - reference, an estimate of KL(model || reference).
  double kl() const;
};

struct Generation {
  // The completions of one prompt form a group and are adjacent.
  std::vector<ScoredCompletion> completions = {};
  double mean_learned = 1;  // mean number of trained tokens per completion
  std::map<std::string, double> metrics = {};
};

// JSON preserves numbers bit for bit.
nlohmann::json to_json(const ScoredCompletion& completion);
nlohmann::json to_json(const std::vector<ScoredCompletion>& completions);
std::vector<ScoredCompletion> completions_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Generation& generation);
Generation generation_from_json(const nlohmann::json& json);

// Returns the metrics completions/*, named and defined as in TRL, and the entropy.
std::map<std::string, double> length_metrics(const std::vector<ScoredCompletion>& completions);

}  // namespace colossal::tune
