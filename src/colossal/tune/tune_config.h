// The values of the keys of `colossal tune`, which add to the configuration of a training run
// (RunConfig). Most keys have the names of TRL 1.16 and its defaults for the method. A method
// (tuning_method.h) says which keys it has.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/data/packing.h"
#include "colossal/tune/methods/advantages.h"
#include "colossal/tune/methods/losses.h"
#include "colossal/tune/methods/policy_losses.h"
#include "colossal/tune/samples/labels.h"

namespace colossal::tune {

// The values of the keys. A field has the name of its key in [tune], unless a comment names another
// key. docs/tuning.md and TuningMethod::describe() give the meaning and range of each key.
struct TuneConfig {
  // Passes over data.train, from which train.steps follows; ignored if train.steps is given.
  double epochs = 3;
  // data.packing: how samples are packed into rows; nullopt: one sample per row.
  std::optional<data::Packing> packing;
  // Names as in dpo_loss_types(), cpo_loss_types() and (GRPO) policy_loss_types(), and as methods.h
  // says for SFT and KTO; only DPO may have several. {"simpo"} for SimPO; empty for the other
  // methods with only one loss.
  std::vector<std::string> loss_type;
  std::vector<double> loss_weights;  // one per loss type; empty: all 1
  // data.chat_template: path of a template file; "model": the template of model.path.
  std::string chat_template = "model";
  // data.eos_token: the token that ends texts and turns; "auto": the tokenizer's end token, and the
  // token with which the chat template ends turns.
  std::string eos_token = "auto";
  // For classify: data.pair_field and data.label_field, the fields of the second text and of the
  // label (data.text_field is that of the text); and what the labels mean, nullopt: it follows from
  // the model, else from the labels (find_labels()).
  std::string pair_field = "text_pair", label_field = "label";
  std::optional<Problem> problem_type;
  bool completion_only_loss = true;  // SampleOptions::completion_only (samples.h)
  bool assistant_only_loss = false;  // SampleOptions::assistant_only
  // For on-policy methods: weight of the KL penalty on deviating from the reference model; 0: no
  // penalty. For DPO, KTO, CPO, SimPO and ORPO: beta in the formulas of losses.h. For distillation:
  // which divergence the loss is; 0: KL(teacher || model), 1: KL(model || teacher), between 0 and
  // 1: the generalized Jensen-Shannon divergence.
  double beta = 0.1;
  // Options of losses of preference pairs (losses.h).
  double label_smoothing = 0;
  Divergence f_divergence_type = Divergence::reverse_kl;
  double f_alpha_divergence_coef = 0.5;  // DpoOptions::alpha
  double discopop_tau = 0.05;
  // For DPO: weight of the tokens by which one completion of a pair is longer than the other;
  // nullopt: 1.
  std::optional<double> ld_alpha;
  double simpo_gamma = 0.5;
  double cpo_alpha = 1;  // for CPO: weight of the chosen completion's cross-entropy
  double alpha = 0;      // CpoOptions::alpha (AlphaPO); 0: rewards are log-probabilities
  double desirable_weight = 1, undesirable_weight = 1;  // for KTO: KtoOptions
  double center_rewards_coefficient = 0;                // center_coefficient of reward_loss()
  // For distillation: folder of the teacher model. For draft_head: folder of the model whose tokens
  // the head predicts; empty: model.path.
  std::string teacher;
  // For distillation: fraction of steps that train on completions sampled from the model.
  double lmbda = 1;
  // The keys below are for on-policy methods. Distillation, which samples completions too, has of
  // these only max_completion_length, temperature, top_p, min_p, repetition_penalty, top_k and
  // batch_invariant. A generation is the completions that updates_per_generation() consecutive
  // updates train on. A group is the completions of one prompt in a generation.
  std::vector<std::string> reward;                   // names as in rewards.h
  std::vector<double> reward_weights;                // one per reward; empty: all 1
  std::chrono::milliseconds reward_timeout{60'000};  // of a call of a program or an HTTP service
  int64_t num_generations = 8;          // TRL's name for the number of completions of a group
  int64_t max_completion_length = 512;  // tokens
  // temperature, top_p, min_p, repetition_penalty and top_k are those of serve::SamplingOptions
  // (serve/sampling.h).
  double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t top_k = 0;
  // Each completion is begun this many generations before its own generation (fewer at the start of
  // a run), and is finished before the first update on its own generation (begun_completions.h). So
  // the weights that sample a token have missed the updates of at most this many generations.
  int64_t max_staleness = 0;
  bool overlap_sampling = true;  // samples while updates run, if possible (sampling_beside.h)
  // nullopt: sequence_mask if max_staleness is above 0, else none; see correction() below.
  std::optional<ImportanceCorrection> importance_sampling_mode;
  double importance_sampling_clip_max = 3;  // ImportanceBounds::clip_max
  // ImportanceBounds::clip_min; nullopt: no lower bound.
  std::optional<double> importance_sampling_clip_min;
  double epsilon = 0.2;                // PolicyOptions::epsilon_low
  std::optional<double> epsilon_high;  // nullopt: the value of epsilon
  std::optional<double> delta;         // PolicyOptions::delta; nullopt: none
  ImportanceLevel importance_sampling_level = ImportanceLevel::token;
  RewardScale scale_rewards = RewardScale::group;
  // num_iterations: how many times each completion is trained on. steps_per_generation: number of
  // global batches in a generation.
  int64_t num_iterations = 1, steps_per_generation = 1;
  bool mask_truncated_completions = false;  // does not train on completions without end token
  bool use_bias_correction_kl = false;      // PolicyOptions::corrects_kl
  // Replaces groups whose rewards are all equal by groups of further prompts (DAPO).
  bool dynamic_sampling = false;
  int64_t max_sampling_rounds = 10;  // of dynamic_sampling, for one generation
  int64_t overlong_tokens = 128;     // RewardOptions::overlong_tokens
  // For RLOO: shifts and scales the advantages of a generation to mean 0 and standard deviation 1.
  bool normalize_advantages = false;
  // For RLOO: the lower and the upper bound to which the total rewards of completions are clipped;
  // empty: no clipping.
  std::vector<double> reward_clip_range;
  // For PPO: clip range of the value loss, weight of the value loss, gamma and lambda of GAE.
  double cliprange_value = 0.2, vf_coef = 0.1, gamma = 1, lam = 0.95;
  bool whiten_rewards = false;  // for PPO: scales rewards of tokens to variance 1
  // For PPO: subtracted from the reward of a completion without end token.
  double missing_eos_penalty = 0;
  bool log_completions = false;  // appends completions to completions.jsonl in log.directory
  bool batch_invariant = false;  // RolloutOptions::batch_invariant

  // Returns the off-policy correction in use: by default sequence_mask if max_staleness is above 0,
  // else none.
  ImportanceCorrection correction() const {
    return importance_sampling_mode.value_or(max_staleness > 0 ? ImportanceCorrection::sequence_mask
                                                               : ImportanceCorrection::none);
  }
  // Returns the value for PolicyOptions::epsilon_high.
  double highest_epsilon() const { return epsilon_high.value_or(epsilon); }
  // Returns the number of updates that train on each generation.
  int64_t updates_per_generation() const { return num_iterations * steps_per_generation; }
};

}  // namespace colossal::tune
