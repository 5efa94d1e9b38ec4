// Completions that a run has sampled and learns from, with all that is known of them. It is the
// same on all ranks, and is kept in checkpoints where several updates learn from it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/tune/rollout.h"

namespace colossal::tune {

struct ScoredCompletion {
  int64_t position = 0;  // of its prompt in the run's order of samples
  Completion completion = {};
  std::vector<double> rewards = {};  // of each of the run's; NaN: it does not apply
  std::vector<double> old = {};  // log-probability of each token as it was sampled, by the model
  std::vector<double> reference = {};  // ... by the reference; both may be empty
  std::vector<double> values =
      {};  // what the model expected at each token; empty: it has no such head
  double advantage = 0;
  std::vector<double> token_advantages = {}, returns = {};  // of methods that have these by token

  // The sum over tokens of what the model has left the reference by.
  double kl() const;
};

struct Generation {
  // Groups of completions of a prompt, neighbours each.
  std::vector<ScoredCompletion> completions = {};
  double mean_learned = 1;  // tokens of a completion that are learned, on average
  std::map<std::string, double> metrics = {};
};

// JSON keeps every bit of a number.
nlohmann::json to_json(const ScoredCompletion& completion);
ScoredCompletion completion_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Generation& generation);
Generation generation_from_json(const nlohmann::json& json);

// completions/mean_length and the like, as TRL names and defines them; entropy.
std::map<std::string, double> length_metrics(const std::vector<ScoredCompletion>& completions);

}  // namespace colossal::tune
