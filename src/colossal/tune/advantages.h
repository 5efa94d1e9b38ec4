// How much better than expected each completion, or each token of it, has turned out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

enum class RewardScale { group, batch, none };
inline std::vector<std::pair<std::string, RewardScale>> config_names(RewardScale) {
  return {
      {"group", RewardScale::group}, {"batch", RewardScale::batch}, {"none", RewardScale::none}};
}

// Rewards [completions] fp64 in groups of `group` completions of one prompt, neighbours each; NaN:
// there is none. Completions without a reward have no part in means, and the advantage 0.
struct Advantages {
  at::Tensor advantages;      // [completions]
  at::Tensor deviations;      // [groups]: the rewards' standard deviations (of a sample)
  double fraction_alike = 0;  // of groups whose rewards are all equal
};

// GRPO (Shao et al. 2024, section 4.1): (R - mean of the group) / (s + 1e-4), s the standard
// deviation of the group or of all; or without it (Liu et al. 2025).
Advantages group_advantages(const at::Tensor& rewards, int64_t group, RewardScale scale);

// RLOO (Kool et al. 2019; Ahmadian et al. 2024): R less the mean of the group's others. normalized:
// less their mean over all, divided by their standard deviation + 1e-4.
Advantages leave_one_out_advantages(const at::Tensor& rewards, int64_t group, bool normalized);

// Generalized advantage estimation (Schulman et al. 2016, eq. 16) over the tokens of completions:
// delta_t = r_t + gamma v_(t+1) - v_t, A_t = delta_t + gamma lambda A_(t+1); what follows the last
// token of a completion is worth 0.
//   rewards, values, mask  [rows, tokens]
struct Estimates {
  at::Tensor advantages;  // [rows, tokens], 0 where the mask is
  at::Tensor returns;     // advantages + values
};
Estimates generalized_advantages(const at::Tensor& rewards, const at::Tensor& values,
                                 const at::Tensor& mask, double gamma, double lambda);

// The standard deviation of a sample, along the last dim, which stays; NaN has no part in it.
at::Tensor sample_deviation(const at::Tensor& x);

// (x - m) / sqrt(s^2 + 1e-8) with the mean m and the unbiased variance s^2 of what the mask has;
// not shifted: m is added again.
at::Tensor whitened(const at::Tensor& x, const at::Tensor& mask, bool shifted = true);

}  // namespace colossal::tune
