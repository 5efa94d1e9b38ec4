// A generation: completions that a run has sampled and learns from, with their rewards and scores.
// All ranks have the same. Checkpoints hold it if several updates learn from it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/tune/rollout.h"

namespace colossal::tune {

struct ScoredCompletion {
  int64_t position = 0;  // the prompt's position in the run's order of samples
  int64_t number = 0;    // in the run
  Completion completion = {};
  // Of each token: from how many generations the weights that sampled it had learned.
  std::vector<int64_t> versions = {};
  std::vector<double> rewards = {};  // one for each reward of the run; NaN: it does not apply
  std::vector<double> old = {};      // log-probability of each token, by the model that sampled it
  std::vector<double> reference = {};  // the same by the reference; both may be empty
  std::vector<double> values = {};  // of the value head, at each token; empty: the model has none
  double advantage = 0;
  std::vector<double> token_advantages = {},
                      returns = {};  // for methods that have them for each token

  // Returns the sum over tokens of old - reference, an estimate of KL(model || reference).
  double kl() const;
};

struct Generation {
  // The completions of one prompt are a group and lie next to each other.
  std::vector<ScoredCompletion> completions = {};
  double mean_learned = 1;  // mean number of learned tokens in a completion
  std::map<std::string, double> metrics = {};
};

// JSON preserves numbers bit for bit.
nlohmann::json to_json(const ScoredCompletion& completion);
nlohmann::json to_json(const std::vector<ScoredCompletion>& completions);
std::vector<ScoredCompletion> completions_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Generation& generation);
Generation generation_from_json(const nlohmann::json& json);

// Returns the metrics completions/*, named and defined as in TRL, and entropy.
std::map<std::string, double> length_metrics(const std::vector<ScoredCompletion>& completions);

}  // namespace colossal::tune
