// The losses of methods that learn from completions of the model itself, each with its formula.
//
// pi_t: the probability of token t of a completion, at the temperature of sampling; old_t: the same
// when the completion was sampled; ref_t: the same by the reference; A: the completion's advantage.
// Tensors by token are [rows, tokens], those by completion [rows]. Names and details are those of
// TRL 1.16.
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

// What corrects for completions that were sampled with other probabilities than the trainer's model
// gives them: a staler model's, or those of other kernels. Each token's loss is multiplied by
// old / sampler of the token, or of all tokens of its completion.
enum class ImportanceCorrection {
  none,
  token_truncate,     // at most clip_max, at least clip_min
  token_mask,         // 0 beyond these
  sequence_truncate,  // the same of the whole completion
  sequence_mask
};
std::vector<std::pair<std::string, ImportanceCorrection>> config_names(ImportanceCorrection);
// Whether its ratios are of whole completions.
bool is_of_sequences(ImportanceCorrection correction);

struct ImportanceBounds {
  std::optional<double> clip_min = {}, clip_max = {};
};
// Returns the weights of the losses: exp(log_ratios), bounded. log_ratios: log old_t - log
// sampler_t [rows, tokens], or their sums over completions [rows, 1] (F. Yao et al. 2025, "Your
// Efficient RL Framework Secretly Brings You Off-Policy RL Training").
at::Tensor importance_weights(const at::Tensor& log_ratios, ImportanceCorrection correction,
                              const ImportanceBounds& bounds);

struct PolicyScores {
  at::Tensor log_probability;  // log pi_t, differentiable
  at::Tensor old;              // log old_t
  at::Tensor reference;        // log ref_t; undefined if beta is 0
  at::Tensor mask;             // 1: a token of the completion; 0: prompt or padding
  at::Tensor advantages;       // A, [rows]; or [rows, tokens] if tokens have their own
  // The losses are multiplied by these, [rows, tokens] or [rows, 1]; undefined: by 1.
  at::Tensor importance = {};
};

struct PolicyOptions {
  std::string loss_type = "dapo";
  ImportanceLevel importance_level = ImportanceLevel::token;
  double epsilon_low = 0.2, epsilon_high = 0.2;
  std::optional<double> delta = {};  // upper bound of the ratio for either sign of A; unset: none
  double beta = 0;                   // weight of the divergence from the reference
  bool corrects_kl = false;          // the divergence of a token is multiplied by its ratio
  double sapo_temperature_positive = 1, sapo_temperature_negative = 1.05;
};

// Returns the loss types of GRPO.
std::vector<std::string> policy_loss_types();

// The loss of each token, and what its metrics are made of.
struct PolicyLoss {
  at::Tensor loss;          // [rows, tokens]; 0 where the mask is 0
  at::Tensor kl;            // the divergence of each token, likewise; undefined if beta is 0
  at::Tensor clipped_low;   // 1 for a token whose ratio is below the range while A < 0
  at::Tensor clipped_high;  // 1 for a token whose ratio is above the range while A > 0
};

// Returns the loss of each token. r = pi_t / old_t; at the level of sequences (GSPO, Zheng et al.
// 2025, eq. 7) the geometric mean of these over the completion:
//   grpo, bnpo, dr_grpo, dapo   -min(min(r, delta) A, clip(r, 1 - e_low, 1 + e_high) A)
//                               (Shao et al. 2024, eq. 3; Yu et al. 2025, eq. 8)
//   cispo                       -min(r, e_high) A log pi_t, the ratio held fixed
//                               (MiniMax 2025, eq. 4)
//   sapo                        -s(tau (r - 1)) 4 / tau A; tau by the sign of A; s: the sigmoid
//                               (Gao et al. 2025, eq. 6)
// Each of these is multiplied by its importance weight. To each beta (ref_t/pi_t - log(ref_t/pi_t)
// - 1) is added (Schulman's k3). log_ratio_means: the means [rows] of log r over whole completions;
// used at the level of sequences only.
PolicyLoss policy_loss(const PolicyScores& scores, const PolicyOptions& options,
                       const at::Tensor& log_ratio_means = {});

// Returns log r of each token, [rows, tokens]; 0 where the mask is 0.
at::Tensor log_ratios(const PolicyScores& scores);

// What weights of tokens depend on. The loss of a step is the mean over its completions of the
// weighted sum over their tokens.
struct TokenWeights {
  double mean_length = 1;  // mean tokens of a completion, over the generation; bnpo: over the step
  double max_length = 1;   // the most tokens that a completion may have
};
// Returns the weight of each token of completions of these lengths, [rows]:
//   grpo, sapo       1 / length
//   dr_grpo          1 / max_length     (Liu et al. 2025)
//   bnpo             1 / the step's mean length
//   dapo, cispo      1 / the generation's mean length
at::Tensor token_weights(const std::string& loss_type, const at::Tensor& lengths,
                         const TokenWeights& means);

// Returns RLOO's loss of each completion, [rows]: -min(r A, clip(r, 1 - e_low, 1 + e_high) A),
// where r is the ratio of the whole completion (Ahmadian et al. 2024, with PPO's clipping).
at::Tensor rloo_loss(const at::Tensor& log_probability, const at::Tensor& old,
                     const at::Tensor& advantages, double epsilon_low, double epsilon_high);

// Returns PPO's value loss of each token: max((v - R)^2, (clip(v, old_v - c, old_v + c) - R)^2) / 2
// (Schulman et al. 2017, and its first implementation).
at::Tensor value_loss(const at::Tensor& values, const at::Tensor& old_values,
                      const at::Tensor& returns, double clip_range);

}  // namespace colossal::tune
