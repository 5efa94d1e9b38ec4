// The keys of [tune]: settings of a tuning method, in addition to those of a training run. Names
// and defaults are those of TRL 1.16.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/booster/run_config.h"
#include "colossal/data/packing.h"
#include "colossal/tune/advantages.h"
#include "colossal/tune/losses.h"
#include "colossal/tune/policy_losses.h"

namespace colossal::tune {

enum class Method { sft, reward, dpo, kto, orpo, simpo, cpo, grpo, rloo, ppo, distill, draft_head };
// Whether a method trains on rewards of completions sampled from the model.
bool is_online(Method method);
std::vector<std::pair<std::string, Method>> method_names();
const char* method_name(Method method);
const char* describe_method(Method method);  // one line, for --help

// The values of the keys, each named like its key in [tune] unless said otherwise. describe() gives
// each key's meaning and range.
struct TuneConfig {
  double epochs = 3;
  std::optional<data::Packing> packing;  // data.packing; nullopt: one sample per row
  std::vector<std::string> loss_type;    // empty: default of the method
  std::vector<double> loss_weights;      // one per loss type; empty: all 1
  std::string chat_template = "model";   // data.chat_template, or a path
  bool completion_only_loss = true;
  bool assistant_only_loss = false;
  double beta = 0.1;
  double label_smoothing = 0;
  Divergence f_divergence_type = Divergence::reverse_kl;
  double f_alpha_divergence_coef = 0.5;
  double discopop_tau = 0.05;
  std::optional<double> ld_alpha;  // nullopt: all tokens have weight 1
  double simpo_gamma = 0.5;
  double cpo_alpha = 1;
  double alpha = 0;
  double desirable_weight = 1, undesirable_weight = 1;
  double center_rewards_coefficient = 0;
  // For distillation.
  std::string teacher;
  double lmbda = 1;
  // For methods that sample completions.
  std::vector<std::string> reward;
  std::vector<double> reward_weights;  // empty: all 1
  double reward_timeout = 60;
  int64_t num_generations = 8;
  int64_t max_completion_length = 512;
  double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t top_k = 0;
  int64_t max_staleness = 0;
  bool overlap_sampling = true;
  std::optional<ImportanceCorrection> importance_sampling_mode;  // nullopt: see correction()
  double importance_sampling_clip_max = 3;
  std::optional<double> importance_sampling_clip_min;  // nullopt: no bound
  double epsilon = 0.2;
  std::optional<double> epsilon_high;  // nullopt: epsilon
  std::optional<double> delta;         // nullopt: no bound
  ImportanceLevel importance_sampling_level = ImportanceLevel::token;
  RewardScale scale_rewards = RewardScale::group;
  int64_t num_iterations = 1, steps_per_generation = 1;
  bool mask_truncated_completions = false;
  bool use_bias_correction_kl = false;
  bool dynamic_sampling = false;
  int64_t max_sampling_rounds = 10;
  int64_t overlong_tokens = 128;
  bool normalize_advantages = false;
  std::vector<double> reward_clip_range;  // lower and upper bound; empty: no clipping
  double cliprange_value = 0.2, vf_coef = 0.1, gamma = 1, lam = 0.95;
  bool whiten_rewards = false;
  double missing_eos_penalty = 0;
  bool log_completions = false;
  bool batch_invariant = false;

  ImportanceCorrection correction() const {
    return importance_sampling_mode.value_or(max_staleness > 0 ? ImportanceCorrection::sequence_mask
                                                               : ImportanceCorrection::none);
  }
  double highest_epsilon() const { return epsilon_high.value_or(epsilon); }
  int64_t updates_per_generation() const { return num_iterations * steps_per_generation; }
};

// Whether a run uses a reference model (reference.h).
bool has_reference(Method method, const TuneConfig& config);

// First call set_defaults(), which sets the method's defaults, also of keys in other sections
// ([optimizer], [train], ...); then describe(), which declares the method's keys, to be read into
// `config`.
void set_defaults(Method method, RunConfig& run, TuneConfig& config);
void describe(ConfigSchema& schema, Method method, TuneConfig& config);

// Throws ConfigError for inconsistent values, before any file is read.
void validate(Method method, const RunConfig& run, const TuneConfig& config);

}  // namespace colossal::tune
