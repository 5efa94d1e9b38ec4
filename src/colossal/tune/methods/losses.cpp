#include "colossal/tune/methods/losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <functional>
#include <map>

namespace colossal::tune {
namespace {

at::Tensor sorted(const at::Tensor& x) {
  return std::get<0>(x.sort(0));
}

// The values that all types of pair losses use.
struct Pairs {
  Pairs(const PairScores& given, const DpoOptions& with) : scores(given), options(with) {
    chosen_ratio = given.chosen - given.reference_chosen;
    rejected_ratio = given.rejected - given.reference_rejected;
    chosen_score = divergence(chosen_ratio);
    rejected_score = divergence(rejected_ratio);
    scaled = options.beta * (chosen_score - rejected_score);
  }

  // Returns the score of a log ratio, whose form follows from the divergence (f-DPO).
  at::Tensor divergence(const at::Tensor& ratio) const {
    switch (options.divergence) {
      case Divergence::reverse_kl:
        return ratio;
      case Divergence::forward_kl:
        return 1 - at::exp(-ratio);
      case Divergence::js_divergence:
        return at::log_sigmoid(ratio) + std::log(2.0);
      case Divergence::alpha_divergence:
        break;
    }
    const double power = options.alpha - 1;
    if (std::abs(power) < 1e-6) return ratio;  // the limit for alpha = 1
    constexpr double kLargestExponent = 80;    // the exponential of this is finite
    return (at::exp((power * ratio).clamp_max(kLargestExponent)) - 1) / power;
  }

  // Returns the difference of the scores per token.
  at::Tensor mean_difference() const {
    return chosen_score / scores.chosen_tokens - rejected_score / scores.rejected_tokens;
  }

  at::Tensor smoothed(const at::Tensor& difference) const {
    const double smoothing = options.label_smoothing;
    return -at::log_sigmoid(options.beta * difference) * (1 - smoothing) -
           at::log_sigmoid(-options.beta * difference) * smoothing;
  }

  const PairScores& scores;
  const DpoOptions& options;
  at::Tensor chosen_ratio, rejected_ratio, chosen_score, rejected_score;
  at::Tensor scaled;  // beta * (chosen_score - rejected_score)
};

using PairLoss = std::function<at::Tensor(const Pairs&)>;

at::Tensor exo_pair(const Pairs& pairs) {
  const double smoothing = pairs.options.label_smoothing;
  const at::Tensor &x = pairs.scaled, log_win = at::log_sigmoid(x), log_lose = at::log_sigmoid(-x);
  return at::sigmoid(x) * (log_win - std::log1p(-smoothing)) +
         at::sigmoid(-x) * (log_lose - std::log(smoothing));
}

at::Tensor robust(const Pairs& pairs) {
  const double smoothing = pairs.options.label_smoothing;
  return (-at::log_sigmoid(pairs.scaled) * (1 - smoothing) +
          at::log_sigmoid(-pairs.scaled) * smoothing) /
         (1 - 2 * smoothing);
}

at::Tensor discopop(const Pairs& pairs) {
  const at::Tensor& x = pairs.scaled;
  const at::Tensor mixed = at::sigmoid(x / pairs.options.discopop_tau);
  return -at::log_sigmoid(x) * (1 - mixed) + at::exp(-x) * mixed;
}

at::Tensor aot(const Pairs& pairs) {
  const PairScores& scores = pairs.scores;
  return pairs.smoothed(sorted(scores.chosen - scores.rejected) -
                        sorted(scores.reference_chosen - scores.reference_rejected));
}

const std::map<std::string, PairLoss>& dpo_losses() {
  static const std::map<std::string, PairLoss> losses{
      {"sigmoid", [](const Pairs& p) { return -at::log_sigmoid(p.scaled); }},
      {"hinge", [](const Pairs& p) { return at::relu(1 - p.scaled); }},
      {"ipo",
       [](const Pairs& p) { return (p.mean_difference() - 1 / (2 * p.options.beta)).square(); }},
      {"exo_pair", exo_pair},
      {"nca_pair",
       [](const Pairs& p) {
         const at::Tensor chosen = p.options.beta * p.chosen_ratio;
         const at::Tensor rejected = p.options.beta * p.rejected_ratio;
         return -at::log_sigmoid(chosen) - 0.5 * at::log_sigmoid(-chosen) -
                0.5 * at::log_sigmoid(-rejected);
       }},
      {"robust", robust},
      {"bco_pair",
       [](const Pairs& p) {
         return -at::log_sigmoid(p.options.beta * p.chosen_ratio) -
                at::log_sigmoid(-p.options.beta * p.rejected_ratio);
       }},
      {"sppo_hard",
       [](const Pairs& p) {
         const double target = 0.5 / p.options.beta;
         return (p.chosen_ratio - target).square() + (p.rejected_ratio + target).square();
       }},
      {"aot", aot},
      {"aot_unpaired",
       [](const Pairs& p) {
         return p.smoothed(sorted(p.chosen_ratio) - sorted(p.rejected_ratio));
       }},
      {"apo_zero",
       [](const Pairs& p) {
         return 1 - at::sigmoid(p.options.beta * p.chosen_ratio) +
                at::sigmoid(p.options.beta * p.rejected_ratio);
       }},
      {"apo_down",
       [](const Pairs& p) {
         return at::sigmoid(p.options.beta * p.chosen_ratio) + 1 -
                at::sigmoid(p.options.beta * (p.chosen_ratio - p.rejected_ratio));
       }},
      {"discopop", discopop},
      {"sft", [](const Pairs& p) { return -p.scores.chosen / p.options.mean_chosen_tokens; }},
      {"sigmoid_norm",
       [](const Pairs& p) { return -at::log_sigmoid(p.options.beta * p.mean_difference()); }}};
  return losses;
}

// Returns log(1 - e^x) for x < 0, accurate for x near 0 and far from 0.
at::Tensor log_one_minus_exp(const at::Tensor& x) {
  const double half = std::log(2.0);
  // at::where() computes gradients of both branches. Replaces the input of the branch that is not
  // chosen, so that its gradient is finite.
  const at::Tensor near_zero = x.gt(-half);
  const at::Tensor near = at::where(near_zero, x, at::full_like(x, -half));
  const at::Tensor far = at::where(near_zero, at::full_like(x, -half), x);
  return at::where(near_zero, (-near.expm1()).log(), (-far.exp()).log1p());
}

}  // namespace

std::vector<std::string> dpo_loss_types() {
  std::vector<std::string> names;
  for (const auto& [name, loss] : dpo_losses()) names.push_back(name);
  return names;
}

at::Tensor dpo_loss(const std::string& type, const PairScores& scores, const DpoOptions& options) {
  return dpo_losses().at(type)(Pairs(scores, options));
}

std::vector<std::string> cpo_loss_types() {
  return {"sigmoid", "hinge", "ipo", "simpo"};
}

bool uses_token_means(const std::string& cpo_loss_type) {
  return cpo_loss_type == "ipo" || cpo_loss_type == "simpo";
}

PairScores means_of(const PairScores& scores) {
  PairScores means = scores;
  means.chosen = scores.chosen / scores.chosen_tokens;
  means.rejected = scores.rejected / scores.rejected_tokens;
  return means;
}

CpoRewards cpo_rewards(const PairScores& scores, const CpoOptions& options) {
  const auto reward = [&](const at::Tensor& score) {
    return options.alpha == 0 ? score : (1 - at::exp(-options.alpha * score)) / options.alpha;
  };
  return {reward(scores.chosen), reward(scores.rejected)};
}

at::Tensor cpo_loss(const std::string& type, const PairScores& scores, const CpoOptions& options) {
  const CpoRewards rewards = cpo_rewards(scores, options);
  at::Tensor difference = rewards.chosen - rewards.rejected;
  if (type == "hinge") return at::relu(1 - options.beta * difference);
  if (type == "ipo") return (difference - 1 / (2 * options.beta)).square();
  if (type == "simpo") difference = difference - options.simpo_gamma / options.beta;
  return -at::log_sigmoid(options.beta * difference) * (1 - options.label_smoothing) -
         at::log_sigmoid(-options.beta * difference) * options.label_smoothing;
}

at::Tensor log_odds(const PairScores& means) {
  return means.chosen - means.rejected -
         (log_one_minus_exp(means.chosen) - log_one_minus_exp(means.rejected));
}

at::Tensor kto_loss(const at::Tensor& ratio, const at::Tensor& desirable, const at::Tensor& kl,
                    const KtoOptions& options) {
  const at::Tensor above = options.beta * (ratio - kl);
  return at::where(desirable, options.desirable_weight * (1 - at::sigmoid(above)),
                   options.undesirable_weight * (1 - at::sigmoid(-above)));
}

at::Tensor reward_loss(const at::Tensor& chosen, const at::Tensor& rejected,
                       const at::Tensor& margin, double center_coefficient) {
  at::Tensor difference = chosen - rejected;
  if (margin.defined()) difference = difference - margin;
  const at::Tensor loss = -at::log_sigmoid(difference);
  if (center_coefficient == 0) return loss;
  return loss + center_coefficient * (chosen + rejected).square();
}

}  // namespace colossal::tune
