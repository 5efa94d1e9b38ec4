#include "colossal/tune/methods/policy_losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>

#include "colossal/base/error.h"

namespace colossal::tune {
namespace {

// Returns values of rows as [rows, 1], to combine them with values of tokens, which it returns
// unchanged.
at::Tensor beside_tokens(const at::Tensor& of_rows) {
  return of_rows.dim() == 1 ? of_rows.unsqueeze(1) : of_rows;
}

// Returns SAPO's smooth alternative to clipping: a sigmoid of the ratio with slope 1 at ratio 1.
at::Tensor soft_gate(const at::Tensor& ratio, const at::Tensor& advantages,
                     const PolicyOptions& options) {
  const at::Tensor temperature =
      at::where(advantages.gt(0), at::full_like(advantages, options.sapo_temperature_positive),
                at::full_like(advantages, options.sapo_temperature_negative));
  return at::sigmoid(temperature * (ratio - 1)) * 4 / temperature;
}

at::Tensor clipped_loss(const at::Tensor& ratio, const at::Tensor& advantages,
                        const PolicyOptions& options) {
  const at::Tensor within =
      at::clamp(ratio, 1 - options.epsilon_low, 1 + options.epsilon_high) * advantages;
  const at::Tensor bounded = options.delta ? ratio.clamp_max(*options.delta) : ratio;
  return -at::minimum(bounded * advantages, within);
}

// Returns an estimate of KL(policy || reference) for each token that is never negative (k3 in J.
// Schulman, "Approximating KL Divergence", 2020).
at::Tensor divergence(const PolicyScores& scores) {
  const at::Tensor difference = scores.reference - scores.log_probability;
  return at::exp(difference) - difference - 1;
}

}  // namespace

std::vector<std::string> policy_loss_types() {
  return {"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"};
}

std::vector<std::pair<std::string, ImportanceCorrection>> config_names(ImportanceCorrection) {
  return {{"none", ImportanceCorrection::none},
          {"token_truncate", ImportanceCorrection::token_truncate},
          {"token_mask", ImportanceCorrection::token_mask},
          {"sequence_truncate", ImportanceCorrection::sequence_truncate},
          {"sequence_mask", ImportanceCorrection::sequence_mask}};
}

bool is_of_sequences(ImportanceCorrection correction) {
  return correction == ImportanceCorrection::sequence_truncate ||
         correction == ImportanceCorrection::sequence_mask;
}

at::Tensor importance_weights(const at::Tensor& log_ratios, ImportanceCorrection correction,
                              const ImportanceBounds& bounds) {
  const double least = bounds.clip_min.value_or(0);
  const double most = bounds.clip_max.value_or(std::numeric_limits<double>::infinity());
  const at::Tensor ratios = log_ratios.exp();
  const bool truncates = correction == ImportanceCorrection::token_truncate ||
                         correction == ImportanceCorrection::sequence_truncate;
  if (truncates) return at::clamp(ratios, least, most);
  return ratios.masked_fill(ratios.lt(least).logical_or(ratios.gt(most)), 0);
}

at::Tensor log_ratios(const PolicyScores& scores) {
  return (scores.log_probability - scores.old) * scores.mask;
}

PolicyLoss policy_loss(const PolicyScores& scores, const PolicyOptions& options,
                       const at::Tensor& log_ratio_means) {
  const at::Tensor advantages = beside_tokens(scores.advantages);
  const bool by_token = options.importance_level == ImportanceLevel::token;
  COLOSSAL_CHECK(by_token || log_ratio_means.defined(), "no ratios of sequences");
  const at::Tensor ratio =
      at::exp(by_token ? scores.log_probability - scores.old : beside_tokens(log_ratio_means));
  PolicyLoss result;
  at::Tensor loss;
  if (options.loss_type == "cispo") {
    loss = -ratio.clamp_max(options.epsilon_high).detach() * advantages * scores.log_probability;
    result.clipped_low = at::zeros_like(scores.mask);
    result.clipped_high =
        ratio.gt(options.epsilon_high).logical_and(advantages.gt(0)) * scores.mask;
  } else {
    loss = options.loss_type == "sapo" ? -soft_gate(ratio, advantages, options) * advantages
                                       : clipped_loss(ratio, advantages, options);
    result.clipped_low =
        ratio.lt(1 - options.epsilon_low).logical_and(advantages.lt(0)) * scores.mask;
    result.clipped_high =
        ratio.gt(1 + options.epsilon_high).logical_and(advantages.gt(0)) * scores.mask;
  }
  if (scores.importance.defined()) loss = loss * scores.importance;
  if (options.beta != 0) {
    result.kl = divergence(scores);
    if (options.corrects_kl) result.kl = result.kl * ratio;
    loss = loss + options.beta * result.kl;
    result.kl = (result.kl * scores.mask).detach();
  }
  result.loss = loss * scores.mask;
  return result;
}

at::Tensor token_weights(const std::string& loss_type, const at::Tensor& lengths,
                         const TokenWeights& means) {
  if (loss_type == "grpo" || loss_type == "sapo") return 1 / lengths.clamp_min(1);
  const double each = loss_type == "dr_grpo" ? means.max_length : means.mean_length;
  return at::full_like(lengths, 1 / std::max(each, 1e-12));
}

at::Tensor rloo_loss(const at::Tensor& log_probability, const at::Tensor& old,
                     const at::Tensor& advantages, double epsilon_low, double epsilon_high) {
  return clipped_loss(at::exp(log_probability - old), advantages,
                      {.epsilon_low = epsilon_low, .epsilon_high = epsilon_high});
}

at::Tensor value_loss(const at::Tensor& values, const at::Tensor& old_values,
                      const at::Tensor& returns, double clip_range) {
  const at::Tensor clipped =
      at::maximum(at::minimum(values, old_values + clip_range), old_values - clip_range);
  return 0.5 * at::maximum((values - returns).square(), (clipped - returns).square());
}

}  // namespace colossal::tune
