// Losses of alignment methods, each with its formula. Inputs are log-probabilities of whole
// completions, i.e. sums over their tokens.
//
// y_w, y_l: chosen and rejected completion of a pair; x: prompt; pi: policy in training; ref:
// reference; s: sigmoid. Names and details are those of TRL 1.16.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

// Scores of a micro-batch's pairs: tensors [pairs], fp32 or fp64.
struct PairScores {
  at::Tensor chosen, rejected;                      // log pi(y_w | x), log pi(y_l | x)
  at::Tensor reference_chosen, reference_rejected;  // likewise for ref; undefined: no reference
  at::Tensor chosen_tokens, rejected_tokens;  // numbers of tokens of the completions, at least 1
};

// The f-divergence from the reference that DPO penalizes: f in dpo_loss().
enum class Divergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };
inline std::vector<std::pair<std::string, Divergence>> config_names(Divergence) {
  return {{"reverse_kl", Divergence::reverse_kl},
          {"forward_kl", Divergence::forward_kl},
          {"js_divergence", Divergence::js_divergence},
          {"alpha_divergence", Divergence::alpha_divergence}};
}

struct DpoOptions {
  double beta = 0.1;  // strength of the penalty on deviating from the reference
  double label_smoothing = 0;
  Divergence divergence = Divergence::reverse_kl;
  double alpha = 0.5;          // for Divergence::alpha_divergence
  double discopop_tau = 0.05;  // for loss type "discopop"
  // Mean number of tokens of a chosen completion over the global batch. Loss type "sft" divides by
  // it, so that the batch's mean loss is a mean over tokens.
  double mean_chosen_tokens = 1;
};

// Returns the names of all types of dpo_loss().
std::vector<std::string> dpo_loss_types();

// Returns the loss of each pair, [pairs]; type: one of dpo_loss_types(). For a completion, r = log
// pi - log ref and n is its number of tokens. f(r) = r for reverse_kl, 1 - e^-r for forward_kl, log
// 2 + log s(r) for js_divergence, (e^((alpha-1) r) - 1) / (alpha - 1) for alpha_divergence. d =
// f(r_w) - f(r_l), b = beta, e = label_smoothing.
//   sigmoid       -log s(b d)                                        (Rafailov et al. 2023, eq. 7)
//   hinge         max(0, 1 - b d)                                    (Zhao et al. 2023)
//   ipo           (f(r_w)/n_w - f(r_l)/n_l - 1/(2b))^2               (Azar et al. 2023, eq. 17)
//   exo_pair      s(b d) (log s(b d) - log(1-e)) + s(-b d) (log s(-b d) - log e)
//                                                                    (Ji et al. 2024, eq. 16)
//   nca_pair      -log s(b r_w) - log s(-b r_w)/2 - log s(-b r_l)/2  (Chen et al. 2024)
//   robust        (-(1-e) log s(b d) + e log s(-b d)) / (1-2e)       (Chowdhury et al. 2024)
//   bco_pair      -log s(b r_w) - log s(-b r_l)                      (Jung et al. 2024)
//   sppo_hard     (r_w - 1/(2b))^2 + (r_l + 1/(2b))^2                (Wu et al. 2024)
//   aot           with D = sorted(log pi(y_w) - log pi(y_l)) - sorted(log ref(y_w) - log ref(y_l)):
//                 -(1-e) log s(b D) - e log s(-b D)                  (Melnyk et al. 2024)
//   aot_unpaired  as aot, with D = sorted(r_w) - sorted(r_l)
//   apo_zero      1 - s(b r_w) + s(b r_l)                            (D'Oosterlinck et al. 2024)
//   apo_down      s(b r_w) + 1 - s(b (r_w - r_l))                    (as apo_zero)
//   discopop      with m = s(b d / tau): -(1-m) log s(b d) + m e^(-b d)  (Lu et al. 2024, eq. 5)
//   sft           -log pi(y_w) / mean n_w
//   sigmoid_norm  -log s(b (f(r_w)/n_w - f(r_l)/n_l))
// aot sorts over the pairs of the micro-batch. exo_pair requires 0 < e < 1, robust e < 1/2.
at::Tensor dpo_loss(const std::string& type, const PairScores& scores, const DpoOptions& options);

struct CpoOptions {
  double beta = 0.1;
  double label_smoothing = 0;
  double simpo_gamma = 0.5;
  double alpha = 0;  // alpha of AlphaPO's reward; 0: the reward is the log-probability
};

std::vector<std::string> cpo_loss_types();  // names of all types of cpo_loss()

// Whether a type of cpo_loss() must be given means_of() the scores: log-probabilities averaged over
// tokens instead of summed.
bool uses_token_means(const std::string& cpo_loss_type);
// Returns the scores with `chosen` and `rejected` divided by the completions' numbers of tokens.
PairScores means_of(const PairScores& scores);

// The reward R of each completion: log pi if alpha is 0, else (1 - e^(-alpha log pi)) / alpha
// (AlphaPO, Gupta et al. 2025).
struct CpoRewards {
  at::Tensor chosen, rejected;
};
CpoRewards cpo_rewards(const PairScores& scores, const CpoOptions& options);

// Returns the loss of each pair, [pairs], without a reference; type: one of cpo_loss_types(). R:
// see cpo_rewards(). d = R_w - R_l, b = beta, e = label_smoothing, gamma = simpo_gamma:
//   sigmoid  -(1-e) log s(b d) - e log s(-b d)      (CPO, Xu et al. 2024, eq. 3)
//   hinge    max(0, 1 - b d)
//   ipo      (d - 1/(2b))^2
//   simpo    as sigmoid, with d - gamma/b for d     (SimPO, Meng et al. 2024, eq. 6)
at::Tensor cpo_loss(const std::string& type, const PairScores& scores, const CpoOptions& options);

// Returns ORPO's log odds ratio of each pair, [pairs]: m_w - m_l - (log(1 - exp(m_w)) - log(1 -
// exp(m_l))), where m_w and m_l are the chosen and rejected scores of means_of(). ORPO adds -beta
// log s(log odds ratio) to the chosen completion's cross-entropy (Hong et al. 2024, eqs. 4 and 7).
at::Tensor log_odds(const PairScores& means);

struct KtoOptions {
  double beta = 0.1;
  double desirable_weight = 1, undesirable_weight = 1;
};
// Returns the loss of each completion, [rows]: w_d (1 - s(b (r - z))) if it is desirable, else
// w_u (1 - s(b (z - r))) (Ethayarajh et al. 2024, eq. 7). b = beta; w_d, w_u: the weights.
//   ratio      r = log pi - log ref, [rows]
//   desirable  [rows], bool
//   kl         z, a scalar: an estimate of KL(pi || ref); 0 for loss type "apo_zero_unpaired"
at::Tensor kto_loss(const at::Tensor& ratio, const at::Tensor& desirable, const at::Tensor& kl,
                    const KtoOptions& options);

// Returns a reward model's loss of each pair, [pairs]: -log s(r_w - r_l - margin) + c (r_w +
// r_l)^2, where r_w and r_l are the rewards of the chosen and the rejected completion and c =
// center_coefficient (Bradley and Terry 1952; the second term: Eisenstein et al. 2023). chosen,
// rejected, margin: [pairs]; an undefined margin counts as 0.
at::Tensor reward_loss(const at::Tensor& chosen, const at::Tensor& rejected,
                       const at::Tensor& margin, double center_coefficient);

}  // namespace colossal::tune
