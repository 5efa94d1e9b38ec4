// Samples completions of prompts from the model in training, with its current weights. The serving
// engine runs in the training process and reads the trained weights, without a second copy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/booster/engine.h"
#include "colossal/booster/job.h"
#include "colossal/models/language_model.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/sampling.h"
#include "colossal/text/tokenizer.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

struct Prompt {
  std::vector<int32_t> tokens;
  uint64_t seed = 0;           // seed of the completion's random draws
  int64_t max_new_tokens = 1;  // most tokens of the completion
};

// Returns the seed of completion `number` of a run.
uint64_t seed_of_completion(uint64_t run_seed, int64_t number);

struct Completion {
  std::vector<int32_t> tokens;  // generated tokens, end token included
  // Of each token, by the model at the sampling temperature, before the repetition penalty, top_k,
  // top_p and min_p are applied.
  std::vector<double> log_probabilities;
  // Sum over tokens of the entropy (nats) of that distribution.
  double entropy = 0;
  bool ended = false;  // whether the last token is an end token; false: cut off at max_new_tokens
  bool operator==(const Completion&) const = default;
};

struct RolloutOptions {
  serve::SamplingOptions sampling;  // `seed` is unused: each Prompt has its own
  std::vector<int32_t> end_tokens;  // each of them ends a completion
  int64_t max_num_seqs = 64;        // most completions sampled at once
  // Makes a completion bitwise independent of the other completions sampled at the same time (see
  // serve::EngineOptions).
  bool batch_invariant = false;
};

// Returns the rollout options for a configuration.
RolloutOptions rollout_options(const TuneConfig& config, const Job& job,
                               const text::Tokenizer& tokenizer);

// What the sampler's options and memory depend on.
struct SamplerDemand {
  const models::ModelFacts& facts;
  const Strategy& strategy;
  at::ScalarType type;  // compute type of the model
  int64_t prompts = 0;  // on this rank
  int64_t longest = 1;  // most tokens of a prompt and its completion together
  at::Device device = at::kCPU;
};
// Returns the options of a serving engine that has pages of keys and values for all sequences
// sampled at once, so that none is preempted and recomputed.
serve::EngineOptions sampler_options(const SamplerDemand& what, const RolloutOptions& options);

// The model to sample from.
struct SampledModel {
  models::LanguageModel& model;
  const models::ModelFacts& facts;
  const ParallelContext& context;  // communication groups of the model
  at::ScalarType type;             // dtype of activations
  // Runs a pass of a stage with the stage's weights fetched; empty: all weights are on the device.
  serve::AroundStage around_stage = {};
};
// Returns the model in training as a SampledModel, after waiting for pending transfers of weights.
// engine: the training engine. All arguments must outlive the returned value.
SampledModel sampled_model(models::LanguageModel& model, const models::ModelFacts& facts,
                           Engine& engine);

// Returns the completions of the prompts, in order.
//
// Collective over the pp x tp ranks that together hold the model: the first of them (serve::leads)
// passes the prompts and gets the completions; the others get an empty vector. With ZeRO stage 3 or
// expert parallelism, the ranks of the data group run each forward pass together, so the call is
// collective over them too, also for a rank without prompts. Law in that case: per forward pass, an
// all-reduce of 8 bytes, and the traffic of gathering weights or of exchanging the experts' rows.
//
// Throws Error if a completion cannot be sampled, e.g. because logits are not finite.
std::vector<Completion> roll_out(const SampledModel& from, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options);

// Divides `count` items over `ranks` ranks, and returns the range of rank number `rank`; the
// ranges' sizes differ by at most 1.
Range share_of(int64_t count, int rank, int ranks);

// As roll_out(), but all ranks pass the same prompts, which are divided over the ranks of the data
// group, and get all completions. Law: that of roll_out() and that of gather_parts(). Collective
// over all ranks.
std::vector<Completion> roll_out_together(const SampledModel& from,
                                          const std::vector<Prompt>& prompts,
                                          const RolloutOptions& options);

// Convert to JSON and back; numbers are preserved bit for bit.
nlohmann::json to_json(const Completion& completion);
Completion completion_from_json(const nlohmann::json& json);

}  // namespace colossal::tune
