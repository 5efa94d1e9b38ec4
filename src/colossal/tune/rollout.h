// Completions of prompts by the model that is trained, with the weights that it has now: sampled by
// the serving engine in this process, so that there is no second model.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/booster/engine.h"
#include "colossal/models/language_model.h"
#include "colossal/serve/sampling.h"

namespace colossal::tune {

struct Prompt {
  std::vector<int32_t> tokens;
  uint64_t seed = 0;  // of the draws of its completion
};

struct Completion {
  std::vector<int32_t> tokens;            // the end token included, where there is one
  std::vector<double> log_probabilities;  // of each, by the sampler, at its temperature
  double entropy = 0;  // the sum over tokens of that of what they were drawn from
  bool ended = false;  // by an end token; else it was cut
  bool operator==(const Completion&) const = default;
};

struct RolloutOptions {
  serve::SamplingOptions sampling;    // but for the seed, which each prompt has
  int64_t max_completion_length = 1;  // tokens
  std::vector<int32_t> end_tokens;
  int64_t max_num_seqs = 64;  // completions that are sampled at once
  // The bits of a completion do not depend on what is sampled beside it (see serve::EngineOptions).
  bool batch_invariant = false;
};

// The completions of this rank's prompts, in order. Where stage 3 of ZeRO shards the weights, the
// ranks of the data group take each forward pass together. Collective over these then, also for a
// rank without prompts; law: an all-reduce of 8 bytes a pass, and what the pass gathers. Throws
// Error where the model gives logits that are not finite.
std::vector<Completion> roll_out(models::LanguageModel& model, const models::ModelFacts& facts,
                                 Engine& engine, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options);

}  // namespace colossal::tune
