// The losses of methods that learn from completions of the model's own, each beside its formula.
//
// pi_t: the probability of token t of a completion, at the temperature that it was drawn at; old:
// the same as the completion was drawn; ref: the same of the reference; A: the completion's
// advantage. Tensors of tokens are [rows, tokens], those of completions [rows]; tokens of no
// completion are 0 in `mask`. Names and details are those of TRL 1.16.
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

struct PolicyScores {
  at::Tensor log_probability;  // log pi_t, differentiable
  at::Tensor old;              // log old_t
  at::Tensor reference;        // log ref_t; undefined: beta is 0
  at::Tensor mask;             // 1: a token of the completion, 0: none
  at::Tensor advantages;       // A, [rows]; of tokens: [rows, tokens]
};

struct PolicyOptions {
  std::string loss_type = "dapo";
  ImportanceLevel importance_level = ImportanceLevel::token;
  double epsilon_low = 0.2, epsilon_high = 0.2;
  std::optional<double> delta =
      {};                    // the largest ratio, whatever the advantage's sign; unset: none
  double beta = 0;           // weight of the divergence from the reference
  bool corrects_kl = false;  // the divergence of a token is multiplied by its ratio
  double sapo_temperature_positive = 1, sapo_temperature_negative = 1.05;
};

// The loss types of GRPO.
std::vector<std::string> policy_loss_types();

// What a policy's loss and its metrics are made of.
struct PolicyLoss {
  at::Tensor loss;          // of each token, [rows, tokens], 0 where the mask is
  at::Tensor kl;            // the same of the divergence; undefined: beta is 0
  at::Tensor clipped_low;   // of each token: 1 where its ratio is below the range and A < 0
  at::Tensor clipped_high;  // ... above the range and A > 0
};

// Loss of each token. With r = pi_t / old_t, or at the level of sequences (GSPO, Zheng et al. 2025,
// eq. 7) the geometric mean of it over the completion's tokens:
//   grpo, bnpo, dr_grpo, dapo   -min(min(r, delta) A, clip(r, 1 - e_low, 1 + e_high) A)
//                               (Shao et al. 2024, eq. 3; Yu et al. 2025, eq. 8)
//   cispo                       -min(r, e_high) A log pi_t, the ratio held fixed
//                               (MiniMax 2025, eq. 4)
//   sapo                        -s(tau (r - 1)) 4 / tau A; tau by the sign of A; s: the sigmoid
//                               (Gao et al. 2025, eq. 6)
// to each of which is added beta (ref_t/pi_t - log(ref_t/pi_t) - 1) (Schulman's k3).
// log_ratio_means: the means [rows] of log r over whole completions; used at the level of sequences
// only.
PolicyLoss policy_loss(const PolicyScores& scores, const PolicyOptions& options,
                       const at::Tensor& log_ratio_means = {});

// The sum of log r over the tokens of each completion, [rows].
at::Tensor log_ratio_sums(const PolicyScores& scores);

// How much each token of a completion counts, so that the loss of a step is the mean over its
// completions of what their tokens have, weighted.
struct TokenWeights {
  double mean_length = 1;  // of completions, over all of the generation; bnpo: over the step
  double max_length = 1;   // that a completion may have
};
// Of completions of these lengths, [rows]:
//   grpo, sapo       1 / length
//   dr_grpo          1 / max_length     (Liu et al. 2025)
//   bnpo             1 / the step's mean length
//   dapo, cispo      1 / the generation's mean length
at::Tensor token_weights(const std::string& loss_type, const at::Tensor& lengths,
                         const TokenWeights& means);

// RLOO's loss of each completion, [rows]: -min(r A, clip(r, 1 - e_low, 1 + e_high) A) with r the
// ratio of whole completions (Ahmadian et al. 2024, with PPO's clipping).
at::Tensor rloo_loss(const at::Tensor& log_probability, const at::Tensor& old,
                     const at::Tensor& advantages, double epsilon_low, double epsilon_high);

// PPO's loss of values, of each token: max((v - R)^2, (clip(v, old_v - c, old_v + c) - R)^2) / 2
// (Schulman et al. 2017, and its first implementation).
at::Tensor value_loss(const at::Tensor& values, const at::Tensor& old_values,
                      const at::Tensor& returns, double clip_range);

// The generalized Jensen-Shannon divergence of on-policy distillation, of each token (GKD, Agarwal
// et al. 2024), from log-probabilities [.., vocabulary] of a student and a teacher: beta = 0 is
// KL(teacher || student), 1 is KL(student || teacher), else
//   beta KL(teacher || m) + (1 - beta) KL(student || m), m = beta teacher + (1 - beta) student.
at::Tensor distillation_loss(const at::Tensor& student, const at::Tensor& teacher, double beta);

}  // namespace colossal::tune
