#include "colossal/tune/methods/shared_keys.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/tune/rewards/rewards.h"

namespace colossal::tune {
namespace {

void describe_rewards(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.reward", &config.reward,
             "The reward functions, whose rewards are added. Built in: accuracy, format, length, "
             "repetition, overlong. A reward model: \"model:DIR\". Your own: \"command:PROGRAM\" "
             "(lines of JSON in, numbers out) or \"http://HOST:PORT/PATH\".");
  schema.add("tune.reward_weights", &config.reward_weights,
             "The weights of the rewards in tune.reward, one for each. Empty: all weights are 1.");
  schema.add("tune.reward_timeout", &config.reward_timeout,
             "How long a reward program or address may take for a batch. If it fails or takes "
             "longer, a warning is logged, and the completions have no reward from it.",
             {.minimum = 1e-3});
  schema.add(
      "tune.overlong_tokens", &config.overlong_tokens,
      "The reward overlong starts to decrease this many tokens before tune.max_completion_length.",
      {.unit = "tokens", .minimum = 1});
}

void describe_staleness(ConfigSchema& schema, TuneConfig& config) {
  schema.add(
      "tune.max_staleness", &config.max_staleness,
      "Asynchronous sampling: how many generations ahead completions are started. They are sampled "
      "during each update, with the weights before it, so that a generation need not wait for its "
      "longest completion. 0: all tokens are sampled with the newest weights.",
      {.unit = "generations", .minimum = 0});
  schema.add("tune.overlap_sampling", &config.overlap_sampling,
             "With tune.max_staleness. true: sample during the forward and backward passes of "
             "updates. false: sample before them. The results are the same. Always false with "
             "parallel.zero = 3, with memory.offload_parameters and on a GPU.");
  schema.add("tune.importance_sampling_mode", &config.importance_sampling_mode,
             "Corrects the loss for tokens that were sampled with other weights or kernels. "
             "token_*: each token's loss is multiplied by its importance ratio, the trainer's "
             "probability over the sampler's. sequence_*: by the ratio of the whole completion. "
             "*_truncate: ratios out of bounds are set to the bound. *_mask: they are set to 0.",
             {.unset = "sequence_mask with tune.max_staleness, else none"});
  schema.add("tune.importance_sampling_clip_max", &config.importance_sampling_clip_max,
             "The upper bound of the ratios of tune.importance_sampling_mode.", {.minimum = 0});
  schema.add("tune.importance_sampling_clip_min", &config.importance_sampling_clip_min,
             "The lower bound of the ratios of tune.importance_sampling_mode.",
             {.minimum = 0, .unset = "none"});
}

void validate_staleness(const TuneConfig& config) {
  if (config.dynamic_sampling && config.max_staleness > 0) {
    throw ConfigError(
        fmt::format("tune.dynamic_sampling with tune.max_staleness = {}: dynamic sampling knows "
                    "which prompts a generation needs only after its completions have rewards, so "
                    "it cannot start them earlier; use one of the two",
                    config.max_staleness));
  }
  const ImportanceCorrection correction = config.correction();
  const bool has_bounds =
      config.importance_sampling_clip_min ||
      config.importance_sampling_clip_max != TuneConfig().importance_sampling_clip_max;
  if (has_bounds && correction == ImportanceCorrection::none) {
    throw ConfigError(
        "tune.importance_sampling_clip_min and tune.importance_sampling_clip_max bound the ratios "
        "of tune.importance_sampling_mode, which is none; choose a mode, or leave them out");
  }
  if (config.importance_sampling_clip_min &&
      *config.importance_sampling_clip_min > config.importance_sampling_clip_max) {
    throw ConfigError(fmt::format(
        "tune.importance_sampling_clip_min = {} is above tune.importance_sampling_clip_max = {}",
        *config.importance_sampling_clip_min, config.importance_sampling_clip_max));
  }
}

}  // namespace

void describe_sampling(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.max_completion_length", &config.max_completion_length,
             "Maximum length of a completion in tokens; longer ones are cut off.",
             {.unit = "tokens", .minimum = 1});
  schema.add("tune.temperature", &config.temperature,
             "Sampling temperature: divides the logits, both when completions are sampled and when "
             "their probabilities are compared. Lower: completions vary less.",
             {.minimum = 1e-6});
  schema.add("tune.top_k", &config.top_k,
             "Sample from the k most likely tokens only. 0: from all tokens.", {.minimum = 0});
  schema.add("tune.top_p", &config.top_p,
             "Sample from the smallest set of most likely tokens whose probabilities sum to at "
             "least this. 1: from all tokens.",
             {.minimum = 1e-9, .maximum = 1});
  schema.add("tune.min_p", &config.min_p,
             "Sample only from tokens at least this many times as likely as the most likely one. "
             "0: from all tokens.",
             {.minimum = 0, .maximum = 1});
  schema.add("tune.repetition_penalty", &config.repetition_penalty,
             "Above 1: tokens that have occurred become less likely. 1: no penalty.",
             {.minimum = 1e-6});
  schema.add("tune.batch_invariant", &config.batch_invariant,
             "true: a completion is bit-identical whatever else is sampled in the same batch, and "
             "at every layout. Sampling is slower.");
}

void describe_online(ConfigSchema& schema, TuneConfig& config, const std::string& kl_text) {
  describe_sampling(schema, config);
  schema.add("tune.log_completions", &config.log_completions,
             "true: append completions and their rewards to completions.jsonl in log.directory.");
  describe_rewards(schema, config);
  describe_staleness(schema, config);
  schema.add("tune.beta", &config.beta, kl_text, {.minimum = 0});
  schema.add("tune.epsilon", &config.epsilon,
             "Clip range of the ratio of a token's new probability to its old one: below 1 minus "
             "this, the ratio is clipped.",
             {.minimum = 0});
  schema.add("tune.epsilon_high", &config.epsilon_high,
             "Upper clip range: above 1 plus this, the ratio is clipped. With loss_type = cispo: "
             "the largest ratio.",
             {.minimum = 0, .unset = "tune.epsilon"});
  schema.add("tune.num_iterations", &config.num_iterations,
             "How many times to train on each completion.", {.minimum = 1});
  schema.add("tune.steps_per_generation", &config.steps_per_generation,
             "Sample the completions for this many steps at once; each step trains on "
             "train.global_batch of them.",
             {.unit = "steps", .minimum = 1});
  schema.add("tune.mask_truncated_completions", &config.mask_truncated_completions,
             "true: do not train on completions that were cut off.");
}

void describe_groups(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.num_generations", &config.num_generations,
             "Group size: how many completions of each prompt to sample and compare with each "
             "other. train.global_batch counts completions.",
             {.unit = "completions", .minimum = 2});
  schema.add("tune.dynamic_sampling", &config.dynamic_sampling,
             "true: leave out groups whose rewards are all equal, which give no gradient, and "
             "sample other prompts instead (DAPO).");
  schema.add("tune.max_sampling_rounds", &config.max_sampling_rounds,
             "Maximum number of sampling rounds of tune.dynamic_sampling for one generation.",
             {.minimum = 1});
}

void validate_online(const TuningMethod& method, const RunConfig& run, const TuneConfig& config) {
  if (config.reward.empty()) {
    throw ConfigError(
        fmt::format("tune.reward is empty: {} needs rewards; give one or more of {}, "
                    "\"model:DIR\", \"command:PROGRAM\" and \"http://HOST:PORT/PATH\"",
                    method.name(), fmt::join(built_in_rewards(), ", ")));
  }
  for (const std::string& reward : config.reward) {
    if (!reward_model_folder(reward)) make_reward_function(reward, {});
  }
  if (!config.reward_weights.empty() && config.reward_weights.size() != config.reward.size()) {
    throw ConfigError(fmt::format(
        "tune.reward_weights has {} numbers for {} rewards in tune.reward; give one for each",
        config.reward_weights.size(), config.reward.size()));
  }
  if (run.train.global_batch * config.steps_per_generation % config.num_generations != 0) {
    throw ConfigError(fmt::format(
        "train.global_batch = {} times tune.steps_per_generation = {} is not a multiple of "
        "tune.num_generations = {}: a generation consists of whole groups; use train.global_batch "
        "= {}",
        run.train.global_batch, config.steps_per_generation, config.num_generations,
        (run.train.global_batch / config.num_generations + 1) * config.num_generations));
  }
  validate_staleness(config);
  if (config.overlong_tokens > config.max_completion_length &&
      std::ranges::find(config.reward, "overlong") != config.reward.end()) {
    throw ConfigError(fmt::format(
        "tune.overlong_tokens = {} with tune.max_completion_length = {}: the reward would decrease "
        "before the first token; use at most {}",
        config.overlong_tokens, config.max_completion_length, config.max_completion_length));
  }
  if (!run.data.validation.empty()) {
    throw ConfigError(
        fmt::format("data.validation with tune {}: this method trains on completions that it "
                    "samples, so it has no loss of held-out completions; leave data.validation "
                    "out, and watch reward in metrics.jsonl",
                    method.name()));
  }
}

void describe_beta(ConfigSchema& schema, TuneConfig& config, const std::string& text) {
  schema.add("tune.beta", &config.beta, text, {.minimum = 1e-9});
}

void describe_label_smoothing(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.label_smoothing", &config.label_smoothing,
             "The assumed fraction of pairs whose labels are swapped.",
             {.minimum = 0, .maximum = 1});
}

}  // namespace colossal::tune
