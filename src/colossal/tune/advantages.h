// Advantage estimators for policy-gradient methods: GRPO, RLOO, GAE.
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

// Rewards are [completions], fp64. The `group` completions of one prompt are adjacent. A reward of
// NaN means that the completion has no reward: it is excluded from means and its advantage is 0.
struct Advantages {
  at::Tensor advantages;      // [completions]
  at::Tensor deviations;      // [groups]: sample standard deviation of the rewards
  double fraction_alike = 0;  // fraction of groups whose rewards are all equal
};

// Returns GRPO advantages (Shao et al. 2024, section 4.1): (R - mean of the group) / (s + 1e-4). s
// is the standard deviation of the group or of the batch, depending on `scale`; RewardScale::none
// omits the division (Dr. GRPO, Liu et al. 2025).
Advantages group_advantages(const at::Tensor& rewards, int64_t group, RewardScale scale);

// Returns RLOO advantages (Kool et al. 2019; Ahmadian et al. 2024): R - mean of the other rewards
// of the group. normalized: then subtracts the mean over all completions and divides by their
// standard deviation + 1e-4.
Advantages leave_one_out_advantages(const at::Tensor& rewards, int64_t group, bool normalized);

// Generalized advantage estimation (GAE, Schulman et al. 2016, eq. 16) over the tokens of
// completions: delta_t = r_t + gamma v_(t+1) - v_t, A_t = delta_t + gamma lambda A_(t+1); v and A
// after the last token of a completion are 0. rewards, values, mask: [rows, tokens].
struct Estimates {
  at::Tensor advantages;  // [rows, tokens]; 0 where the mask is 0
  at::Tensor returns;     // advantages + values
};
Estimates generalized_advantages(const at::Tensor& rewards, const at::Tensor& values,
                                 const at::Tensor& mask, double gamma, double lambda);

// Returns the sample standard deviation along the last dim (keepdim). Ignores NaN.
at::Tensor sample_deviation(const at::Tensor& x);

// Returns (x - m) / sqrt(s^2 + 1e-8), where m is the mean and s^2 the unbiased variance of the
// elements that the mask selects. shifted = false: adds m again.
at::Tensor whitened(const at::Tensor& x, const at::Tensor& mask, bool shifted = true);

}  // namespace colossal::tune
