// Losses of on-policy methods, each with its formula.
//
// pi_t: probability of token t of a completion by the policy in training, at the sampling
// temperature; old_t: likewise by the policy before the first update on the generation; ref_t: by
// the reference; A: advantage of the completion or the token. Per-token tensors are [rows, tokens],
// per-completion tensors [rows]. Names and details are those of TRL 1.16.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

// Whether the ratio r of policy_loss() is one per token or one per completion.
enum class ImportanceLevel { token, sequence };
inline std::vector<std::pair<std::string, ImportanceLevel>> config_names(ImportanceLevel) {
  return {{"token", ImportanceLevel::token}, {"sequence", ImportanceLevel::sequence}};
}

// Off-policy correction for completions that were sampled with probabilities other than old_t: by a
// staler model, or by other kernels. The loss of each token is multiplied by the importance ratio
// old / sampler of the token or of its whole completion, where sampler_t is the probability with
// which token t was sampled; the ratio is clamped or masked.
enum class ImportanceCorrection {
  none,
  token_truncate,     // clamps the ratio of a token to [clip_min, clip_max]
  token_mask,         // sets the ratio of a token outside [clip_min, clip_max] to 0
  sequence_truncate,  // as token_truncate, with the ratio of the whole completion
  sequence_mask       // as token_mask, with the ratio of the whole completion
};
std::vector<std::pair<std::string, ImportanceCorrection>> config_names(ImportanceCorrection);
// Whether the correction uses the ratio of a whole completion.
bool is_of_sequences(ImportanceCorrection correction);

// nullopt: no bound.
struct ImportanceBounds {
  std::optional<double> clip_min = {}, clip_max = {};
};
// Returns the importance weights: exp(log_ratios), clamped or masked. log_ratios: log old_t - log
// sampler_t, [rows, tokens], or its sums over completions, [rows, 1]; the result has that shape (F.
// Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training").
at::Tensor importance_weights(const at::Tensor& log_ratios, ImportanceCorrection correction,
                              const ImportanceBounds& bounds);

// Per-token tensors unless said otherwise.
struct PolicyScores {
  at::Tensor log_probability;  // log pi_t, differentiable
  at::Tensor old;              // log old_t
  at::Tensor reference;        // log ref_t; undefined if beta is 0
  at::Tensor mask;             // 1: trained on; 0: prompt, padding or a masked completion
  at::Tensor advantages;       // A: [rows], or [rows, tokens] for advantages per token
  // Importance weights, factors of the losses: [rows, tokens] or [rows, 1]; undefined: 1.
  at::Tensor importance = {};
};

struct PolicyOptions {
  std::string loss_type = "dapo";
  ImportanceLevel importance_level = ImportanceLevel::token;
  double epsilon_low = 0.2, epsilon_high = 0.2;
  std::optional<double> delta = {};  // upper bound of r, also for A < 0; nullopt: none
  double beta = 0;                   // weight of the KL penalty
  bool corrects_kl = false;          // multiplies the KL penalty of a token by r
  double sapo_temperature_positive = 1, sapo_temperature_negative = 1.05;
};

// Returns the names of all loss types of policy_loss().
std::vector<std::string> policy_loss_types();

// The loss of each token, and tensors for metrics.
struct PolicyLoss {
  at::Tensor loss;  // [rows, tokens]; 0 where the mask is 0
  at::Tensor kl;    // KL estimate of each token; 0 where the mask is 0; undefined if beta is 0
  // 1 for a token with r < 1 - e_low and A < 0 (cispo: never), and 1 for a token with r > 1 +
  // e_high (cispo: e_high) and A > 0; else 0.
  at::Tensor clipped_low;
  at::Tensor clipped_high;
};

// Returns the loss of each token. e_low, e_high: epsilon_low, epsilon_high. r = pi_t / old_t; with
// ImportanceLevel::sequence (GSPO, Zheng et al. 2025, eq. 7), r is the geometric mean of
// pi_t / old_t over the completion:
//   grpo, bnpo, dr_grpo, dapo   -min(min(r, delta) A, clip(r, 1 - e_low, 1 + e_high) A)
//                               (Shao et al. 2024, eq. 3; Yu et al. 2025, eq. 8)
//   cispo                       -min(r, e_high) A log pi_t, no gradient through r
//                               (MiniMax 2025, eq. 4)
//   sapo                        -s(tau (r - 1)) 4 / tau A; tau depends on the sign of A; s: sigmoid
//                               (Gao et al. 2025, eq. 6)
// The loss is then multiplied by PolicyScores::importance, and the KL penalty beta (ref_t/pi_t -
// log(ref_t/pi_t) - 1) is added (Schulman's k3 estimator; with corrects_kl, times r).
// log_ratio_means: means of log(pi_t / old_t) over whole completions, [rows]; required for
// ImportanceLevel::sequence only.
PolicyLoss policy_loss(const PolicyScores& scores, const PolicyOptions& options,
                       const at::Tensor& log_ratio_means = {});

// Returns log(pi_t / old_t), [rows, tokens]; 0 where the mask is 0.
at::Tensor log_ratios(const PolicyScores& scores);

// Parameters of token_weights(). The loss of a step is the mean over its completions of the sum
// over each completion's tokens of weight times loss.
struct TokenWeights {
  double mean_length = 1;  // mean trained tokens of the generation's completions; bnpo: the step's
  double max_length = 1;   // most tokens that a completion may have
};
// Returns, for completions with these lengths, [rows], the weight of each of their tokens, [rows]:
//   grpo, sapo       1 / length
//   dr_grpo          1 / max_length     (Liu et al. 2025)
//   bnpo             1 / mean length of the step
//   dapo, cispo      1 / mean length of the generation
at::Tensor token_weights(const std::string& loss_type, const at::Tensor& lengths,
                         const TokenWeights& means);

// Returns RLOO's loss of each completion, [rows]: -min(r A, clip(r, 1 - e_low, 1 + e_high) A),
// where r = pi / old of the whole completion (Ahmadian et al. 2024, with PPO's clipping).
// log_probability, old: sums over the completions' tokens, [rows].
at::Tensor rloo_loss(const at::Tensor& log_probability, const at::Tensor& old,
                     const at::Tensor& advantages, double epsilon_low, double epsilon_high);

// Returns PPO's value loss of each token: max((v - R)^2, (clip(v, old_v - c, old_v + c) - R)^2) /
// 2, where R is the return and c = clip_range (as in OpenAI's baselines implementation of Schulman
// et al. 2017).
at::Tensor value_loss(const at::Tensor& values, const at::Tensor& old_values,
                      const at::Tensor& returns, double clip_range);

}  // namespace colossal::tune
