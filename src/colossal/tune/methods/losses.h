// Losses of offline alignment methods (DPO, CPO, SimPO, ORPO, KTO, reward models), each with its
// formula. Unless a function says otherwise, inputs are
// log-probabilities of whole completions, i.e. sums over their tokens. Names and details are those
// of TRL 1.16. Losses of on-policy methods are in policy_losses.h.
//
// In the formulas, x is the prompt; y_w and y_l are the chosen and the rejected completion of a
// pair. log pi(y | x) is the log-probability of completion y by the model in training, and log
// ref(y | x) that by the reference model. s is the sigmoid function. An index w or l stands for "of
// the chosen" or "of the rejected" completion.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

// Scores of the pairs of a micro-batch. All tensors are [pairs], fp32 or fp64.
struct PairScores {
  at::Tensor chosen, rejected;  // log pi(y_w | x), log pi(y_l | x)
  // log ref(y_w | x), log ref(y_l | x). Only dpo_loss() reads them; undefined for methods without a
  // reference.
  at::Tensor reference_chosen, reference_rejected;
  at::Tensor chosen_tokens, rejected_tokens;  // numbers of tokens of y_w and y_l, at least 1
};

// The f-divergence between model and reference that DPO penalizes. Each value selects a function f
// in dpo_loss().
enum class Divergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };
inline std::vector<std::pair<std::string, Divergence>> config_names(Divergence) {
  return {{"reverse_kl", Divergence::reverse_kl},
          {"forward_kl", Divergence::forward_kl},
          {"js_divergence", Divergence::js_divergence},
          {"alpha_divergence", Divergence::alpha_divergence}};
}

// Options of dpo_loss().
struct DpoOptions {
  double beta = 0.1;           // strength of the penalty on deviating from the reference
  double label_smoothing = 0;  // assumed probability that chosen and rejected are swapped
  Divergence divergence = Divergence::reverse_kl;
  double alpha = 0.5;          // alpha of Divergence::alpha_divergence
  double discopop_tau = 0.05;  // temperature tau of loss type "discopop"
  // For loss type "sft", which divides by it: mean number of tokens of the chosen completions over
  // the global batch. The mean loss over the batch's pairs is then a mean over tokens.
  at::Tensor mean_chosen_tokens{};
};

// Returns the names of all loss types that dpo_loss() computes.
std::vector<std::string> dpo_loss_types();

// Returns the loss of each pair, [pairs], of DPO and its variants. type: one of dpo_loss_types().
//
// r = log pi(y | x) - log ref(y | x) of a completion y, and n is its number of tokens. f(r) = r for
// reverse_kl, 1 - exp(-r) for forward_kl, log 2 + log s(r) for js_divergence, (exp((alpha-1) r) -
// 1) / (alpha - 1) for alpha_divergence (its limit r for alpha = 1). d = f(r_w) - f(r_l), b = beta,
// e = label_smoothing.
//   sigmoid       -log s(b d)                                        (Rafailov et al. 2023, eq. 7)
//   hinge         max(0, 1 - b d)                                    (Zhao et al. 2023)
//   ipo           (f(r_w)/n_w - f(r_l)/n_l - 1/(2b))^2               (Azar et al. 2023, eq. 17)
//   exo_pair      s(b d) (log s(b d) - log(1-e)) + s(-b d) (log s(-b d) - log e)
//                                                                    (Ji et al. 2024, eq. 16)
//   nca_pair      -log s(b r_w) - log s(-b r_w)/2 - log s(-b r_l)/2  (Chen et al. 2024)
//   robust        (-(1-e) log s(b d) + e log s(-b d)) / (1-2e)       (Chowdhury et al. 2024)
//   bco_pair      -log s(b r_w) - log s(-b r_l)                      (Jung et al. 2024)
//   sppo_hard     (r_w - 1/(2b))^2 + (r_l + 1/(2b))^2                (Wu et al. 2024)
//   aot           with D = sorted(log pi_w - log pi_l) - sorted(log ref_w - log ref_l):
//                 -(1-e) log s(b D) - e log s(-b D)                  (Melnyk et al. 2024)
//   aot_unpaired  as aot, with D = sorted(r_w) - sorted(r_l)
//   apo_zero      1 - s(b r_w) + s(b r_l)                            (D'Oosterlinck et al. 2024)
//   apo_down      s(b r_w) + 1 - s(b (r_w - r_l))                    (D'Oosterlinck et al. 2024)
//   discopop      with m = s(b d / tau): -(1-m) log s(b d) + m exp(-b d)  (Lu et al. 2024, eq. 5)
//   sft           -log pi_w / mean_chosen_tokens
//   sigmoid_norm  -log s(b (f(r_w)/n_w - f(r_l)/n_l))
// log pi_w stands for log pi(y_w | x), and so on. aot and aot_unpaired sort over the pairs of the
// micro-batch, so the loss of an element is not that of one pair. exo_pair requires 0 < e < 1,
// robust e < 1/2.
at::Tensor dpo_loss(const std::string& type, const PairScores& scores, const DpoOptions& options);

// Options of cpo_rewards() and cpo_loss().
struct CpoOptions {
  double beta = 0.1;           // scale of the difference of rewards
  double label_smoothing = 0;  // assumed probability that chosen and rejected are swapped
  double simpo_gamma = 0.5;    // SimPO: target margin of beta times the difference of rewards
  double alpha = 0;            // alpha of AlphaPO's reward; see CpoRewards
};

// Returns the names of all loss types that cpo_loss() computes.
std::vector<std::string> cpo_loss_types();

// Whether cpo_loss() of this type expects the scores that means_of() returns (log-probabilities
// averaged over the tokens of a completion) instead of sums over tokens.
bool uses_token_means(const std::string& cpo_loss_type);
// Returns the scores with `chosen` divided by `chosen_tokens` and `rejected` divided by
// `rejected_tokens`.
PairScores means_of(const PairScores& scores);

// The rewards R_w and R_l of the completions of each pair, [pairs]: R = log pi if CpoOptions::alpha
// is 0, else (1 - exp(-alpha log pi)) / alpha (AlphaPO, Gupta et al. 2025), where log pi is the
// completion's score in PairScores.
struct CpoRewards {
  at::Tensor chosen, rejected;
};
CpoRewards cpo_rewards(const PairScores& scores, const CpoOptions& options);

// Returns the loss of each pair, [pairs], of CPO and SimPO, which need no reference. type: one of
// cpo_loss_types(). d = R_w - R_l (CpoRewards), b = beta, e = label_smoothing, gamma = simpo_gamma:
//   sigmoid  -(1-e) log s(b d) - e log s(-b d)      (CPO, Xu et al. 2024, eq. 3)
//   hinge    max(0, 1 - b d)
//   ipo      (d - 1/(2b))^2
//   simpo    as sigmoid, with d - gamma/b for d     (SimPO, Meng et al. 2024, eq. 6)
at::Tensor cpo_loss(const std::string& type, const PairScores& scores, const CpoOptions& options);

// Returns ORPO's log odds ratio of each pair, [pairs]: m_w - m_l - (log(1 - exp(m_w)) - log(1 -
// exp(m_l))), where m_w = means.chosen and m_l = means.rejected. means: the result of means_of().
// The loss of ORPO is the chosen completion's cross-entropy, minus beta * log s(log odds ratio)
// (Hong et al. 2024, eqs. 4 and 7).
at::Tensor log_odds(const PairScores& means);

// Options of kto_loss().
struct KtoOptions {
  double beta = 0.1;  // strength of the penalty on deviating from the reference
  double desirable_weight = 1, undesirable_weight = 1;  // factors of the loss of a completion
};
// Returns KTO's loss of each completion, [rows]: w_d (1 - s(b (r - z))) if the completion is
// desirable, else w_u (1 - s(b (z - r))) (Ethayarajh et al. 2024, eq. 7). b = beta, w_d =
// desirable_weight, w_u = undesirable_weight.
//   ratio      r = log pi - log ref of each completion, [rows]
//   desirable  whether each completion is desirable, [rows], bool
//   kl         z, a tensor of 0 dims: an estimate of KL(pi || ref). With z = 0, this is the loss
//              type "apo_zero_unpaired"
at::Tensor kto_loss(const at::Tensor& ratio, const at::Tensor& desirable, const at::Tensor& kl,
                    const KtoOptions& options);

// Returns the loss of a reward model for each pair, [pairs]: -log s(chosen - rejected - margin) +
// center_coefficient (chosen + rejected)^2 (Bradley and Terry 1952; the second term: Eisenstein et
// al. 2023). chosen, rejected: the model's rewards of the completions, [pairs]. margin: by how much
// the chosen completion should be ahead, [pairs]; undefined: 0.
at::Tensor reward_loss(const at::Tensor& chosen, const at::Tensor& rejected,
                       const at::Tensor& margin, double center_coefficient);

}  // namespace colossal::tune
