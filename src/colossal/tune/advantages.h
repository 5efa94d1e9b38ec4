// Advantage estimators for policy-gradient methods: GRPO, RLOO, GAE.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

// By which standard deviation GRPO divides rewards: that of the prompt's group, of all completions
// of the generation, or none.
enum class RewardScale { group, batch, none };
inline std::vector<std::pair<std::string, RewardScale>> config_names(RewardScale) {
  return {
      {"group", RewardScale::group}, {"batch", RewardScale::batch}, {"none", RewardScale::none}};
}

// Advantages of completions from their rewards, [completions], fp64. The completions of one prompt
// form a group and are adjacent; `group` is their number. A reward of NaN means that the completion
// has no reward: it is excluded from means and deviations, and its advantage is 0.
struct Advantages {
  at::Tensor advantages;      // [completions]
  at::Tensor deviations;      // [groups]: sample standard deviation of the rewards
  double fraction_alike = 0;  // fraction of groups with deviation 0: their rewards are all equal
};

// Returns GRPO advantages (Shao et al. 2024, section 4.1): (R - m) / (s + 1e-4), where m is the
// mean reward of the group and s the standard deviation of the rewards of the group or of all
// completions, depending on `scale`; RewardScale::none omits the division (Dr. GRPO, Liu et al.
// 2025).
Advantages group_advantages(const at::Tensor& rewards, int64_t group, RewardScale scale);

// Returns RLOO advantages (Kool et al. 2019; Ahmadian et al. 2024): A = R - mean of the other
// rewards of the group. normalized: then (A - m) / (s + 1e-4), where m and s are mean and standard
// deviation of A over all completions.
Advantages leave_one_out_advantages(const at::Tensor& rewards, int64_t group, bool normalized);

// Generalized advantage estimation (GAE, Schulman et al. 2016, eq. 16) over the tokens of
// completions: delta_t = r_t + gamma v_(t+1) - v_t, A_t = delta_t + gamma lambda A_(t+1); v and A
// after the last token of a completion are 0. rewards, values, mask: [rows, tokens].
struct Estimates {
  at::Tensor advantages;  // [rows, tokens]; 0 where the mask is 0
  at::Tensor returns;     // advantages + values; 0 where the mask is 0
};
Estimates generalized_advantages(const at::Tensor& rewards, const at::Tensor& values,
                                 const at::Tensor& mask, double gamma, double lambda);

// Returns the sample standard deviation along the last dim, which is kept with size 1. Ignores NaN.
at::Tensor sample_deviation(const at::Tensor& x);

// Returns (x - m) / sqrt(v + 1e-8), where m is the mean and v the unbiased variance of the elements
// that the mask selects; 0 where the mask is 0. shifted = false: adds m to the result, so that the
// mean is unchanged.
at::Tensor whitened(const at::Tensor& x, const at::Tensor& mask, bool shifted = true);

}  // namespace colossal::tune
