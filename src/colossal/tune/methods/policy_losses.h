// Losses of on-policy methods (GRPO and variants, RLOO, PPO), each with its formula. Names and
// details are those of TRL 1.16.
//
// In the formulas, pi_t, old_t and ref_t are probabilities of token t of a completion, at the
// sampling temperature. A generation is the set of sampled completions on which one or several
// updates train (generation.h). pi_t is by the policy in training, old_t by the policy before the
// first update on the generation, and ref_t by the reference model. A is the advantage of the
// completion or of the token. A row is a prompt with one completion, and padding. Tensors per token
// are [rows, tokens], with all tokens of the row that this rank holds. Tensors per completion are
// [rows].
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

// Whether policy_loss() uses one ratio of new to old probability per token, or one per completion.
enum class ImportanceLevel { token, sequence };
// Names of the values in configuration files.
inline std::vector<std::pair<std::string, ImportanceLevel>> config_names(ImportanceLevel) {
  return {{"token", ImportanceLevel::token}, {"sequence", ImportanceLevel::sequence}};
}

// Off-policy correction, for completions whose tokens were not sampled with the probabilities
// old_t: they were sampled with older weights, or by kernels that round differently. The policy
// loss of each token (RLOO: of each completion), without the KL penalty, is multiplied by an
// importance weight. The weight is the ratio old_t / sampler_t, clamped or masked, where sampler_t
// is the probability with which token t was sampled. The ratio of a whole completion is the product
// of its tokens' ratios.
enum class ImportanceCorrection {
  none,               // no correction
  token_truncate,     // clamps the ratio of a token to [clip_min, clip_max]
  token_mask,         // sets the ratio of a token outside [clip_min, clip_max] to 0
  sequence_truncate,  // as token_truncate, with the ratio of the whole completion
  sequence_mask       // as token_mask, with the ratio of the whole completion
};
// Returns the names of the values in configuration files.
std::vector<std::pair<std::string, ImportanceCorrection>> config_names(ImportanceCorrection);
// Whether the correction uses ratios of whole completions (sequence_truncate, sequence_mask).
bool is_of_sequences(ImportanceCorrection correction);

// Bounds of importance ratios. nullopt: no bound.
struct ImportanceBounds {
  std::optional<double> clip_min = {}, clip_max = {};
};
// Returns the importance weights, in the shape of log_ratios: exp(log_ratios), clamped to the
// bounds (..._truncate) or set to 0 outside the bounds (..._mask) (F. Yao et al. 2025, "Your
// Efficient RL Framework Secretly Brings You Off-Policy RL Training"). log_ratios: log old_t - log
// sampler_t (not the result of the function log_ratios() below), [rows, tokens]; if
// is_of_sequences(correction), the sums of these over each completion, [rows, 1]. correction: must
// not be `none`.
at::Tensor importance_weights(const at::Tensor& log_ratios, ImportanceCorrection correction,
                              const ImportanceBounds& bounds);

// Inputs of policy_loss(). Tensors are per token, [rows, tokens], unless said otherwise.
struct PolicyScores {
  at::Tensor log_probability;  // log pi_t, differentiable
  at::Tensor old;              // log old_t
  at::Tensor reference;        // log ref_t; undefined if PolicyOptions::beta is 0
  // 1 for tokens that are trained on; 0 for prompts, padding and completions that are masked.
  at::Tensor mask;
  at::Tensor advantages;  // A: [rows], or [rows, tokens] for advantages per token
  // Importance weights (importance_weights()), by which losses are multiplied: [rows, tokens] or
  // [rows, 1]. Undefined: all 1.
  at::Tensor importance = {};
};

// Options of policy_loss(). "Ratio" is the ratio of new to old probability, r in policy_loss().
struct PolicyOptions {
  std::string loss_type = "dapo";  // one of policy_loss_types()
  ImportanceLevel importance_level = ImportanceLevel::token;
  // The ratio of new to old probability is clipped to [1 - epsilon_low, 1 + epsilon_high]; for loss
  // type "cispo", to at most epsilon_high. Loss type "sapo" does not clip it, and uses these bounds
  // only for PolicyLoss::clipped_low and clipped_high.
  double epsilon_low = 0.2, epsilon_high = 0.2;
  // Upper bound of the ratio, which must be above 1 + epsilon_high. It thus has an effect only for
  // A < 0, where the clipping above does not limit how much a large ratio adds to the loss. Not
  // used by loss types "cispo" and "sapo". nullopt: no bound.
  std::optional<double> delta = {};
  double beta = 0;           // weight of the KL penalty
  bool corrects_kl = false;  // whether the KL penalty is multiplied by the ratio
  // tau of loss type "sapo" for A > 0, and for other A.
  double sapo_temperature_positive = 1, sapo_temperature_negative = 1.05;
};

// Returns the names of all loss types of policy_loss().
std::vector<std::string> policy_loss_types();

// Result of policy_loss(): the loss of each token, and tensors for metrics.
struct PolicyLoss {
  at::Tensor loss;  // [rows, tokens], differentiable; 0 where the mask is 0
  // KL estimate of each token, multiplied by the ratio if corrects_kl, [rows, tokens]; 0 where the
  // mask is 0. Undefined if beta is 0.
  at::Tensor kl;
  // [rows, tokens]: 1 where the mask is 1, the ratio is below 1 - epsilon_low and A < 0; else 0.
  // All 0 for cispo.
  at::Tensor clipped_low;
  // [rows, tokens]: 1 where the mask is 1, the ratio is above 1 + epsilon_high (cispo:
  // epsilon_high) and A > 0; else 0.
  at::Tensor clipped_high;
};

// Returns the loss of each token, for GRPO, its variants, and PPO. r is the ratio pi_t / old_t;
// with ImportanceLevel::sequence (GSPO, Zheng et al. 2025, eq. 7), r is the geometric mean of pi_t
// / old_t over the completion. e_low and e_high are epsilon_low and epsilon_high. The loss by loss
// type:
//   grpo, bnpo, dr_grpo, dapo   -min(min(r, delta) A, clip(r, 1 - e_low, 1 + e_high) A)
//                               (Shao et al. 2024, eq. 3; Yu et al. 2025, eq. 8)
//   cispo                       -min(r, e_high) A log pi_t, no gradient through r
//                               (MiniMax 2025, eq. 4)
//   sapo                        -(4 / tau) s(tau (r - 1)) A; s: sigmoid; tau: see PolicyOptions
//                               (Gao et al. 2025, eq. 6)
// This loss is multiplied by PolicyScores::importance. Then the KL penalty beta * k is added, where
// k = ref_t / pi_t - log(ref_t / pi_t) - 1 (Schulman's k3 estimator), multiplied by r if
// corrects_kl.
//
// log_ratio_means: the mean of log(pi_t / old_t) over the tokens of each completion that are
// trained on, on all ranks of sp, [rows]. Required for ImportanceLevel::sequence, otherwise unused.
// Must be differentiable, since r is computed from it.
PolicyLoss policy_loss(const PolicyScores& scores, const PolicyOptions& options,
                       const at::Tensor& log_ratio_means = {});

// Returns log(pi_t / old_t), [rows, tokens], differentiable; 0 where the mask is 0.
at::Tensor log_ratios(const PolicyScores& scores);

// Parameters of token_weights().
struct TokenWeights {
  // Mean number of tokens per completion that are trained on; OnlineTask uses the mean over the
  // generation.
  double mean_length = 1;
  double max_length = 1;  // most tokens that a completion may have
};
// Returns the weight of the tokens of each completion, [rows]: all tokens of a completion have the
// same weight. The loss of a step is the mean over completions of the sum over tokens of (weight *
// loss). lengths: number of tokens of each completion that are trained on, [rows]. The weight by
// loss type:
//   grpo, sapo         1 / length         (1 for length 0)
//   dr_grpo            1 / max_length     (Liu et al. 2025)
//   bnpo, dapo, cispo  1 / mean_length
at::Tensor token_weights(const std::string& loss_type, const at::Tensor& lengths,
                         const TokenWeights& means);

// Returns RLOO's loss of each completion, [rows]: -min(r A, clip(r, 1 - epsilon_low, 1 +
// epsilon_high) A), where r = pi / old is the ratio of probabilities of the whole completion
// (Ahmadian et al. 2024, with PPO's clipping). log_probability, old: log pi and log old, summed
// over the tokens of each completion, [rows]. advantages: A, [rows].
at::Tensor rloo_loss(const at::Tensor& log_probability, const at::Tensor& old,
                     const at::Tensor& advantages, double epsilon_low, double epsilon_high);

// Returns PPO's value loss of each token, [rows, tokens]: max((v - R)^2, (clip(v, old_v - c, old_v
// + c) - R)^2) / 2, where v is the value now, old_v the value before the first update on the
// generation, R the return, and c = clip_range (as in OpenAI's baselines implementation of Schulman
// et al. 2017). values, old_values, returns: v, old_v and R, [rows, tokens].
at::Tensor value_loss(const at::Tensor& values, const at::Tensor& old_values,
                      const at::Tensor& returns, double clip_range);

}  // namespace colossal::tune
