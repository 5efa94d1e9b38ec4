// Samples completions of prompts from the model in training (rollouts), with its current weights.
// An inference engine (serve/engine_core.h) runs in the training process and reads the trained
// weights, without a second copy. Used by on-policy methods and distillation.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/engine/engine.h"
#include "colossal/job/job.h"
#include "colossal/models/model.h"
#include "colossal/models/model_facts.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/sampling.h"
#include "colossal/text/taught_text.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

// A prompt of which one completion is to be sampled.
struct Prompt {
  std::vector<int32_t> tokens;
  uint64_t seed = 0;           // seed of the completion's random numbers
  int64_t max_new_tokens = 1;  // most tokens that are added to the completion
  // How many of `tokens`, the last ones, are the completion's already.
  int64_t begun = 0;
};

// Returns the seed for Prompt::seed of completion `number` of a run. run_seed: train.seed.
uint64_t seed_of_completion(uint64_t run_seed, int64_t number);

// A completion of a prompt, sampled from the model.
struct Completion {
  std::vector<int32_t> tokens;  // generated tokens, end token included
  // Log-probability of each token by the model at the sampling temperature, before the repetition
  // penalty, top_k, top_p and min_p are applied.
  std::vector<double> log_probabilities;
  // Sum over the tokens of the entropy, in nats, of the distribution that `log_probabilities`
  // refers to.
  double entropy = 0;
  bool ended = false;  // whether the last token is an end token; false: cut off at max_new_tokens
  bool operator==(const Completion&) const = default;
};

struct RolloutOptions {
  serve::SamplingOptions sampling;  // `seed` is unused: Prompt::seed takes its place
  std::vector<int32_t> end_tokens;  // each of these tokens ends a completion
  int64_t max_num_seqs = 64;        // most completions that a rank samples at once
  // Makes a completion bitwise independent of other completions that are sampled at the same time
  // (serve::EngineOptions::batch_invariant).
  bool batch_invariant = false;
};

// Returns the options that a run's configuration demands. The end tokens are those of the model's
// folder (without a folder, the tokenizer's end-of-text token) and of `taught`. Temperature, top_k,
// top_p, min_p and repetition_penalty are those of `config`; the other settings of generation are
// those of the model's folder.
RolloutOptions rollout_options(const TuneConfig& config, const Job& job,
                               const text::Tokenizer& tokenizer, const text::TaughtText& taught);

// What the options and the memory of a sampler depend on.
struct SamplerRequirements {
  const models::ModelFacts& facts;  // of the model
  const Strategy& strategy;         // parallel layout of the model
  at::ScalarType type;              // compute type of the model
  int64_t completions = 0;          // number of completions to sample on this rank
  int64_t longest = 1;              // most tokens of a prompt and its completion together
  at::Device device = at::kCPU;     // of the model's weights
};
// Returns the options of an inference engine for sampling. Its KV cache has room for all sequences
// that are sampled at once, so that no sequence is preempted and recomputed.
serve::EngineOptions sampler_options(const SamplerRequirements& what,
                                     const RolloutOptions& options);

// The model to sample from.
struct SampledModel {
  models::Model& model;
  const models::ModelFacts& facts;
  const ParallelContext& context;  // ranks and communication groups of the model
  at::ScalarType type;             // dtype of activations
  // Fetches the weights of a stage around its computation. Empty: all weights are on the device.
  serve::AroundStage around_stage = {};
};
// Waits for pending transfers of weights, then returns the model in training as a SampledModel.
// engine: the training engine. All arguments must outlive the returned value.
SampledModel sampled_model(models::Model& model, const models::ModelFacts& facts, Engine& engine);

// Samples one completion of each prompt and returns the completions, in order.
//
// Collective over the pp x tp ranks that together hold the model. The first of these ranks
// (serve::leads()) passes the prompts and gets the completions; the prompts of the other ranks are
// ignored, and these ranks get an empty vector. With ZeRO stage 3 or expert parallelism, the ranks
// of ParallelContext::data_group() (dp x sp), which sample for different prompts, nevertheless run
// each forward pass together. The call is then collective over this group, too, even for ranks
// without prompts.
//
// Law: the bytes of tell() (step_messages.h) and of ForwardPass::start() (forward_pass.h). With
// ZeRO stage 3 or expert parallelism, also the bytes of gathering weights, and an all-reduce of 8
// bytes before each forward pass and after the last one.
//
// Throws Error if a completion cannot be sampled, e.g. because logits are not finite.
std::vector<Completion> roll_out(const SampledModel& from, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options);

// Divides `count` items over `ranks` ranks, in order, and returns the range of items of rank number
// `rank`. The sizes of the ranges differ by at most 1.
Range share_of(int64_t count, int rank, int ranks);

// Samples one completion of each prompt. All ranks pass the same prompts and get all completions,
// in order; the work is divided over the ranks of ParallelContext::data_group(). Collective over
// all ranks. Law: that of roll_out() and that of gather_parts() (gather_parts.h). Throws as
// roll_out().
std::vector<Completion> roll_out_on_all_ranks(const SampledModel& from,
                                              const std::vector<Prompt>& prompts,
                                              const RolloutOptions& options);

// Convert to JSON and back; numbers are preserved bit for bit.
nlohmann::json to_json(const Completion& completion);
Completion completion_from_json(const nlohmann::json& json);

}  // namespace colossal::tune
