// Samples completions of prompts from the model in training, with its current weights. The serving
// engine runs in this process, so there is no second copy of the model.
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
  uint64_t seed = 0;           // of the completion's random draws
  int64_t max_new_tokens = 1;  // of the completion
};

// Returns the seed of the completion that has this number in a run.
uint64_t seed_of_completion(uint64_t run_seed, int64_t number);

struct Completion {
  std::vector<int32_t> tokens;            // with the end token, if there is one
  std::vector<double> log_probabilities;  // of each token, by the sampler, at its temperature
  double entropy = 0;  // summed over tokens, of the distributions they were drawn from
  bool ended = false;  // with an end token; false: it was cut
  bool operator==(const Completion&) const = default;
};

struct RolloutOptions {
  serve::SamplingOptions sampling;  // its seed is unused: prompts have their own
  std::vector<int32_t> end_tokens;
  int64_t max_num_seqs = 64;  // completions that are sampled at once
  // The bits of a completion do not depend on what is sampled beside it (see serve::EngineOptions).
  bool batch_invariant = false;
};

// Returns the options of a run that samples as `config` says.
RolloutOptions rollout_options(const TuneConfig& config, const Job& job,
                               const text::Tokenizer& tokenizer);

// What is sampled, as far as the sampler's memory depends on it.
struct Sampled {
  const models::ModelFacts& facts;
  const Strategy& strategy;
  at::ScalarType type;  // that the model computes in
  int64_t prompts = 0;  // of this rank
  int64_t longest = 1;  // the most tokens of a prompt with its completion
  at::Device device = at::kCPU;
};
// Returns the options of an engine with pages for all that is sampled at once, so that nothing is
// computed twice.
serve::EngineOptions sampler_options(const Sampled& what, const RolloutOptions& options);

// A model that completions are sampled from.
struct SampledModel {
  models::LanguageModel& model;
  const models::ModelFacts& facts;
  const ParallelContext& context;        // whose groups the model uses
  at::ScalarType type;                   // that it computes in
  serve::AroundStage around_stage = {};  // brings the weights of a stage; empty: they are here
};
// Returns the model in training, and waits for weights that are under way. All arguments must
// outlive what is returned.
SampledModel sampled_model(models::LanguageModel& model, const models::ModelFacts& facts,
                           Engine& engine);

// Returns the completions of the prompts, in order. Ranks of pp and tp sample together, as they
// hold the model together: collective over them; the first one (serve::leads) has the prompts and
// gets the completions, the others get none. With ZeRO stage 3 or shared experts the ranks of the
// data group run each forward pass together: the call is then collective over them, also for a rank
// without prompts, and each pass sends an all-reduce of 8 bytes and the weights that it gathers, or
// the rows of experts. Throws Error if
// logits are not finite.
std::vector<Completion> roll_out(const SampledModel& from, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options);

// A part of `count` things, as even as it goes: that of one of several ranks.
Range share_of(int64_t count, int rank, int ranks);

// roll_out() of prompts that all ranks have, shared out over the ranks of the data group; all ranks
// get all completions. Law: that of gather_parts(). Collective over all ranks.
std::vector<Completion> roll_out_together(const SampledModel& from,
                                          const std::vector<Prompt>& prompts,
                                          const RolloutOptions& options);

// JSON preserves numbers bit for bit.
nlohmann::json to_json(const Completion& completion);
Completion completion_from_json(const nlohmann::json& json);

}  // namespace colossal::tune
