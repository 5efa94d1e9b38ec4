// Advantage estimators for policy-gradient methods: GRPO, RLOO, and GAE for PPO. Used by the tasks
// of these methods.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace colossal::tune {

// What GRPO divides advantages by (group_advantages()).
enum class RewardScale {
  group,  // the standard deviation of the rewards of the prompt's group
  batch,  // the standard deviation of all rewards passed to group_advantages()
  none    // no division
};
// Names of the values in configuration files.
inline std::vector<std::pair<std::string, RewardScale>> config_names(RewardScale) {
  return {
      {"group", RewardScale::group}, {"batch", RewardScale::batch}, {"none", RewardScale::none}};
}

// Result of group_advantages() and leave_one_out_advantages(). Both take the rewards of
// completions, [completions] fp64. The completions of one prompt form a group and are adjacent; the
// parameter `group` is the number of completions per prompt. A reward of NaN means that the
// completion has no reward; means and standard deviations exclude it. The advantage of a
// completion is 0 if it has no reward, or if no other completion of its group has one. Both throw
// InternalError if the number of completions is not a multiple of `group`.
struct Advantages {
  at::Tensor advantages;  // [completions] fp64
  // [groups] fp64: sample standard deviation of each group's rewards; NaN for a group with fewer
  // than two rewards.
  at::Tensor deviations;
  // Fraction of all groups whose deviation is 0, i.e. that have at least two rewards, all equal.
  double fraction_with_equal_rewards = 0;
};

// Returns GRPO advantages (Shao et al. 2024, section 4.1): (R - m) / (s + 1e-4), where R is the
// completion's reward, m the mean reward of its group, and s the standard deviation that `scale`
// selects. With RewardScale::none, returns R - m (Dr. GRPO, Liu et al. 2025).
Advantages group_advantages(const at::Tensor& rewards, int64_t group, RewardScale scale);

// Returns RLOO advantages (Kool et al. 2019; Ahmadian et al. 2024): A = R - (mean reward of the
// other completions of the group), where R is the completion's reward. If `normalized`, returns (A
// - m) / (s + 1e-4) instead, where m and s are the mean and the standard deviation of A over
// the completions with a reward in groups with at least two rewards. The advantage of all other
// completions is 0 in this case, too.
Advantages leave_one_out_advantages(const at::Tensor& rewards, int64_t group, bool normalized);

// Result of generalized_advantages(), for each token.
struct Estimates {
  at::Tensor advantages;  // [rows, tokens]; 0 where the mask is 0
  at::Tensor returns;     // [rows, tokens]: advantages + values; 0 where the mask is 0
};
// Returns advantages by generalized advantage estimation (GAE, Schulman et al. 2016, eq. 16) over
// the tokens of completions: delta_t = r_t + gamma v_(t+1) - v_t and A_t = delta_t + gamma lambda
// A_(t+1), where r_t is the reward of token t, v_t its value and A_t its advantage. v and A after
// the last token of a completion are 0. rewards, values: [rows, tokens]. mask: [rows, tokens], 1
// for tokens of the completion, else 0.
Estimates generalized_advantages(const at::Tensor& rewards, const at::Tensor& values,
                                 const at::Tensor& mask, double gamma, double lambda);

// Returns the sample standard deviation along the last dim, which is kept with size 1. Ignores NaN;
// the result is NaN where fewer than two elements are not NaN.
at::Tensor sample_deviation(const at::Tensor& x);

// Returns x scaled to variance 1 and, if `shifted`, shifted to mean 0: (x - m) / sqrt(v + 1e-8),
// where m is the mean and v the unbiased variance of the elements of x whose mask is 1. If not
// `shifted`, adds m to that, so that the mean is unchanged. The result is 0 where the mask is 0.
// mask: 1 or 0, in the shape of x.
at::Tensor whitened(const at::Tensor& x, const at::Tensor& mask, bool shifted = true);

}  // namespace colossal::tune
