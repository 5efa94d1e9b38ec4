// Samples completions of prompts from the model in training, with its current weights. The serving
// engine runs in this process, so there is no second copy of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/booster/engine.h"
#include "colossal/models/language_model.h"
#include "colossal/serve/sampling.h"

namespace colossal::tune {

struct Prompt {
  std::vector<int32_t> tokens;
  uint64_t seed = 0;  // of the completion's random draws
};

struct Completion {
  std::vector<int32_t> tokens;            // with the end token, if there is one
  std::vector<double> log_probabilities;  // of each token, by the sampler, at its temperature
  double entropy = 0;  // summed over tokens, of the distributions they were drawn from
  bool ended = false;  // with an end token; false: it was cut
  bool operator==(const Completion&) const = default;
};

struct RolloutOptions {
  serve::SamplingOptions sampling;    // its seed is unused: prompts have their own
  int64_t max_completion_length = 1;  // tokens
  std::vector<int32_t> end_tokens;
  int64_t max_num_seqs = 64;  // completions that are sampled at once
  // The bits of a completion do not depend on what is sampled beside it (see serve::EngineOptions).
  bool batch_invariant = false;
};

// Returns the completions of the prompts, in order. Ranks of pp and tp sample together, as they
// hold the model together: collective over them; the first one (serve::leads) has the prompts and
// gets the completions, the others get none. With ZeRO stage 3 the ranks of the data group run each
// forward pass together: the call is then collective over them, also for a rank without prompts,
// and each pass sends an all-reduce of 8 bytes and the weights that it gathers. Throws Error if
// logits are not finite.
std::vector<Completion> roll_out(models::LanguageModel& model, const models::ModelFacts& facts,
                                 Engine& engine, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options);

}  // namespace colossal::tune
