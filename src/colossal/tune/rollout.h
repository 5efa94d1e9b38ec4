// Samples completions of prompts from the model in training, with its current weights. The serving
// engine runs in the training process, so there is no second copy of the weights.
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
  // of each token, by the sampling model, at the sampling temperature
  std::vector<double> log_probabilities;
  double entropy = 0;  // sum over tokens of the entropy (nats) of the distribution sampled from
  bool ended = false;  // whether there is an end token; false: cut off
  bool operator==(const Completion&) const = default;
};

struct RolloutOptions {
  serve::SamplingOptions sampling;  // the seed is unused: prompts have seeds
  std::vector<int32_t> end_tokens;
  int64_t max_num_seqs = 64;  // most completions sampled at once
  // Makes a completion bitwise independent of the other completions sampled at the same time (see
  // serve::EngineOptions).
  bool batch_invariant = false;
};

// Returns the rollout options for a configuration.
RolloutOptions rollout_options(const TuneConfig& config, const Job& job,
                               const text::Tokenizer& tokenizer);

// What the sampler's memory depends on.
struct Sampled {
  const models::ModelFacts& facts;
  const Strategy& strategy;
  at::ScalarType type;  // compute type of the model
  int64_t prompts = 0;  // on this rank
  int64_t longest = 1;  // most tokens of a prompt with its completion
  at::Device device = at::kCPU;
};
// Returns the options of an engine with pages for all sequences that are sampled at once, so that
// none is preempted and recomputed.
serve::EngineOptions sampler_options(const Sampled& what, const RolloutOptions& options);

// The model to sample from.
struct SampledModel {
  models::LanguageModel& model;
  const models::ModelFacts& facts;
  const ParallelContext& context;  // communication groups of the model
  at::ScalarType type;             // dtype of activations
  // fetches weights of a stage; empty: all weights are on the device
  serve::AroundStage around_stage = {};
};
// Returns the model in training, after waiting for pending transfers of weights. All arguments must
// outlive the returned value.
SampledModel sampled_model(models::LanguageModel& model, const models::ModelFacts& facts,
                           Engine& engine);

// Returns the completions of the prompts, in order.
//
// Collective over the pp x tp ranks that hold the model: the first of them (serve::leads) passes
// the prompts and gets the completions; the others get an empty vector. With ZeRO stage 3 or expert
// parallelism, collective over the data group too, also for a rank without prompts: these ranks run
// each forward pass together. Law in that case: per pass, an all-reduce of 8 bytes, and the
// gathered weights or the rows of experts.
//
// Throws Error if logits are not finite.
std::vector<Completion> roll_out(const SampledModel& from, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options);

// Returns the range of `count` items that belongs to rank `rank` of `ranks`; sizes differ by at
// most 1.
Range share_of(int64_t count, int rank, int ranks);

// As roll_out(), with prompts that all ranks pass: they are divided over the ranks of the data
// group, and all ranks get all completions. Law: also that of gather_parts(). Collective over all
// ranks.
std::vector<Completion> roll_out_together(const SampledModel& from,
                                          const std::vector<Prompt>& prompts,
                                          const RolloutOptions& options);

// JSON preserves numbers bit for bit.
nlohmann::json to_json(const Completion& completion);
Completion completion_from_json(const nlohmann::json& json);

}  // namespace colossal::tune
