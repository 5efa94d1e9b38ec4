// Losses of on-policy methods, each with its formula.
//
// pi_t: probability of token t of a completion at the sampling temperature; old_t: likewise by the
// policy before the first update on the generation; ref_t: likewise by the reference; A: advantage
// of the completion. Per-token tensors are [rows, tokens], per-completion tensors [rows]. Names and
// details are those of TRL 1.16.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

enum class ImportanceLevel { token, sequence };
inline std::vector<std::pair<std::string, ImportanceLevel>> config_names(ImportanceLevel) {
  return {{"token", ImportanceLevel::token}, {"sequence", ImportanceLevel::sequence}};
}

// Off-policy correction for completions that were sampled with probabilities other than the
// trainer's: by a staler model, or by other kernels. The loss of each token is multiplied by the
// importance ratio old / sampler of the token or of its whole completion.
enum class ImportanceCorrection {
  none,
  token_truncate,     // clamps the ratio of a token to [clip_min, clip_max]
  token_mask,         // sets the ratio of a token outside [clip_min, clip_max] to 0
  sequence_truncate,  // likewise, with the ratio of the whole completion
  sequence_mask
};
std::vector<std::pair<std::string, ImportanceCorrection>> config_names(ImportanceCorrection);
// Whether the correction uses the ratio of a whole completion.
bool is_of_sequences(ImportanceCorrection correction);

struct ImportanceBounds {
  std::optional<double> clip_min = {}, clip_max = {};
};
// Returns the importance weights: exp(log_ratios), clamped or masked. log_ratios: log old_t - log
// sampler_t, [rows, tokens], or sums over completions, [rows, 1] (F. Yao et al. 2025, "Your
// Efficient RL Framework Secretly Brings You Off-Policy RL Training").
at::Tensor importance_weights(const at::Tensor& log_ratios, ImportanceCorrection correction,
                              const ImportanceBounds& bounds);

struct PolicyScores {
  at::Tensor log_probability;  // log pi_t, differentiable
  at::Tensor old;              // log old_t
  at::Tensor reference;        // log ref_t; undefined if beta is 0
  at::Tensor mask;             // 1: a token of the completion; 0: prompt or padding
  at::Tensor advantages;       // A: [rows], or [rows, tokens] for advantages per token
  // Factors of the losses, [rows, tokens] or [rows, 1]; undefined: 1.
  at::Tensor importance = {};
};

struct PolicyOptions {
  std::string loss_type = "dapo";
  ImportanceLevel importance_level = ImportanceLevel::token;
  double epsilon_low = 0.2, epsilon_high = 0.2;
  std::optional<double> delta = {};  // upper bound of the ratio for A of either sign; nullopt: none
  double beta = 0;                   // weight of the KL penalty
  bool corrects_kl = false;          // multiplies the KL penalty of a token by pi_t / old_t
  double sapo_temperature_positive = 1, sapo_temperature_negative = 1.05;
};

// Returns the loss types of GRPO.
std::vector<std::string> policy_loss_types();

// The loss of each token, and tensors for metrics.
struct PolicyLoss {
  at::Tensor loss;          // [rows, tokens]; 0 where the mask is 0
  at::Tensor kl;            // KL estimate of each token, likewise; undefined if beta is 0
  at::Tensor clipped_low;   // 1 for a token whose ratio is below the range while A < 0
  at::Tensor clipped_high;  // 1 for a token whose ratio is above the range while A > 0
};

// Returns the loss of each token. r = pi_t / old_t; with ImportanceLevel::sequence (GSPO, Zheng et
// al. 2025, eq. 7), r is the geometric mean of pi_t / old_t over the completion:
//   grpo, bnpo, dr_grpo, dapo   -min(min(r, delta) A, clip(r, 1 - e_low, 1 + e_high) A)
//                               (Shao et al. 2024, eq. 3; Yu et al. 2025, eq. 8)
//   cispo                       -min(r, e_high) A log pi_t, no gradient through r
//                               (MiniMax 2025, eq. 4)
//   sapo                        -s(tau (r - 1)) 4 / tau A; tau depends on the sign of A; s: sigmoid
//                               (Gao et al. 2025, eq. 6)
// The loss is then multiplied by PolicyScores::importance, and the KL penalty beta (ref_t/pi_t -
// log(ref_t/pi_t) - 1) is added (Schulman's k3 estimator). log_ratio_means: means of log(pi_t /
// old_t) over whole completions, [rows]; required for ImportanceLevel::sequence only.
PolicyLoss policy_loss(const PolicyScores& scores, const PolicyOptions& options,
                       const at::Tensor& log_ratio_means = {});

// Returns log(pi_t / old_t), [rows, tokens]; 0 where the mask is 0.
at::Tensor log_ratios(const PolicyScores& scores);

// Parameters of token_weights(). The loss of a step is the mean over its completions of the
// weighted sum over their tokens.
struct TokenWeights {
  double mean_length = 1;  // mean tokens per completion of the generation; for bnpo of the step
  double max_length = 1;   // most tokens that a completion may have
};
// Returns the weight of each token of completions of these lengths, [rows]:
//   grpo, sapo       1 / length
//   dr_grpo          1 / max_length     (Liu et al. 2025)
//   bnpo             1 / mean length of the step
//   dapo, cispo      1 / mean length of the generation
at::Tensor token_weights(const std::string& loss_type, const at::Tensor& lengths,
                         const TokenWeights& means);

// Returns RLOO's loss of each completion, [rows]: -min(r A, clip(r, 1 - e_low, 1 + e_high) A),
// where r = pi / old of the whole completion (Ahmadian et al. 2024, with PPO's clipping).
at::Tensor rloo_loss(const at::Tensor& log_probability, const at::Tensor& old,
                     const at::Tensor& advantages, double epsilon_low, double epsilon_high);

// Returns PPO's value loss of each token: max((v - R)^2, (clip(v, old_v - c, old_v + c) - R)^2) / 2
// (Schulman et al. 2017, and its first implementation).
at::Tensor value_loss(const at::Tensor& values, const at::Tensor& old_values,
                      const at::Tensor& returns, double clip_range);

}  // namespace colossal::tune
